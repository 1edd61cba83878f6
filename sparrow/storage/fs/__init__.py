"""File systems: local folders, object stores and web servers."""
