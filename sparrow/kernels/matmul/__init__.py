"""Kernels of matrix products: SpGEMM, masked SpGEMM, SpMM, SpMV, SDDMM, MTTKRP."""
