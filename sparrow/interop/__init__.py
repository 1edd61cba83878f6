"""Neighbours: what other libraries hold, in and out."""
