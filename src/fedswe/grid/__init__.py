"""Many runs: cells in a directory, shared among processes."""
