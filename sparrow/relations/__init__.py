"""Relations: immutable sets of stored elements, in memory or in files, and edits of them."""
