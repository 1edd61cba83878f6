"""Registry, detection, sources and writers that formats share."""
