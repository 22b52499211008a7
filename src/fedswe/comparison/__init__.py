"""Several algorithms on the same clients, the same availability and the same tuning effort."""
