"""Kernels of models: ALS, linear models, optimizers, top-k."""
