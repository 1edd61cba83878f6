"""Physical operators of contractions: operand layouts, tilings, kernels."""
