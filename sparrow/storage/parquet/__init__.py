"""Parquet files of a tensor: column layout, writer, reader and sort orders."""
