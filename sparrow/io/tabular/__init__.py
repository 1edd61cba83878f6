"""Formats of rows and columns: CSV, Parquet, JSON lines."""
