"""What formats share: registry, detection, sources, writers."""
