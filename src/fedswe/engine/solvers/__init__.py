"""Ways to compute the local training of a stack of clients."""
