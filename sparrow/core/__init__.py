"""Schema, storage types, labels and indexing."""
