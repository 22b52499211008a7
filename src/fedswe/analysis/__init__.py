"""The theory applied to an experiment: the paper's quantities for its availability and its task."""
