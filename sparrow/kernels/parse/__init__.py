"""Kernels that parse text and binary records."""
