"""Results of a run: its history, its directory, tables of scores."""
