"""Functions of the namespace ``sp``."""
