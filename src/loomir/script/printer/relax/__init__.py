"""Print graphs."""
