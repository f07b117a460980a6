"""The ways into a function: from Python, from C, and how arrays are checked there."""
