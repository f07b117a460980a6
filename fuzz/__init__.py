"""Fuzzing: compare engines with the interpreter on random programs; a developers' tool."""
