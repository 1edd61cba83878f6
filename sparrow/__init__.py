"""sparrow: a sparse tensor store and query engine."""

__version__ = "0.1.0"
