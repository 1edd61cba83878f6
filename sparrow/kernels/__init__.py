"""Loops over arrays: no I/O, no plans, no knowledge of where the arrays come from."""
