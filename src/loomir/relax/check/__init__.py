"""The rules of well-formed graphs."""
