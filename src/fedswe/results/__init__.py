"""What a run leaves behind: a history in memory, a run directory on disk."""
