"""Results of a run: its history, its directory, its provenance."""
