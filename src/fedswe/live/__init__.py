"""A local page that follows runs, comparisons and grids while they are written.

One task reads the directories (``hub``); every open page is a stream of server-sent events of what is new to it
(``stream``). Nothing is written, no lock is kept, and no code that a configuration names is imported.
"""
