"""The protocol that stored and in-memory elements share, and CSR in memory."""
