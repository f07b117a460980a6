"""Executables that outlive the process: saved to a file, and exported for programs in C."""
