"""Files that people have: one module for each format."""
