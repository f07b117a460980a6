"""Reports of a profiled call: rows, traces, rooflines."""
