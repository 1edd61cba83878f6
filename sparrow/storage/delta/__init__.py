"""The Delta log: commits, snapshots, checksums, append runs."""
