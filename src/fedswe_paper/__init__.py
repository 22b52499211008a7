"""Every table and figure of the paper: cells of a resumable grid, recipes that lay them out, and verdicts."""
