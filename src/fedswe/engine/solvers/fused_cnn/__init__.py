"""Fast local training and scoring on a GPU: the paper's CNNs, each client with its own weights.

Covers chains that are empty or one clip; others take the next solver. The kernels need Triton, which comes with torch
for CUDA.
"""
