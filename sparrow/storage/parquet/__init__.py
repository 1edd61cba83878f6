"""Parquet files: layout, writer, reader, sort orders."""
