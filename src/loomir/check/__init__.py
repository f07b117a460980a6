"""Verification: the rules of well-formed programs that need more than one node."""
