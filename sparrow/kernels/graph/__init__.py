"""Kernels over adjacency in CSR form."""
