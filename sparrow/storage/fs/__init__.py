"""File systems: local folders, object stores, HTTP."""
