"""Schema, storage types, labels and index algebra."""
