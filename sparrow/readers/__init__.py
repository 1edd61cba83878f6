"""Readers of text and tables: one module for each format, all over one block reader."""
