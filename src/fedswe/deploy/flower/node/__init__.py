"""A client's node: Flower's SuperNode and SuperExec as two processes that are watched and end together.

It takes the place of `flower-supernode`, and differs from it in four ways:

- it ends when one of its two processes ends or hangs, so that whatever restarts programs can restart it;
- it ends when a ClientApp was killed or hangs: Flower's SuperNode then waits, for a minute or without limit;
- a ClientApp is forked from a process that has imported torch, and the pauses between requests are short while messages
  come and grow when none come;
- the API between SuperNode and SuperExec needs a secret, which is made at every start.
"""
