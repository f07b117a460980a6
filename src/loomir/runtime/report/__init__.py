"""What a profile of a call shows: rows, traces, rooflines."""
