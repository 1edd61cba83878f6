"""Process-wide services: settings, memory budget, thread pool, progress, DuckDB connections."""
