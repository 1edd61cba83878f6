"""Relations, immutable sets of stored elements, and their edits."""
