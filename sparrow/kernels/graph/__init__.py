"""Graph kernels over adjacency in CSR form."""
