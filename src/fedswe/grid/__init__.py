"""Grids: many experiments, each with a name, run by several processes or machines into one directory."""
