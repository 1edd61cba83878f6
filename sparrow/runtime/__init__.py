"""Process-wide services: settings, memory, threads, progress, DuckDB."""
