"""Delta log of a tensor: commits, snapshots, checksums and append runs."""
