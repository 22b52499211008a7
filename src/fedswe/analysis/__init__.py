"""The theory applied to an experiment: what its availability and its task make of the paper's quantities."""
