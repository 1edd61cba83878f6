"""Physical operators of element-wise functions."""
