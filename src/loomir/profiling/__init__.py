"""Profile calls kernel by kernel, and compare them with the machine's limits."""
