"""The quantities of the paper's analysis as functions of an availability and of k."""
