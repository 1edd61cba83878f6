"""Kernels of matrix products: SpGEMM, SpMM, SpMV, masked products."""
