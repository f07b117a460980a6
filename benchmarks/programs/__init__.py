"""First drafts of programs, in plain loops, for ``python -m benchmarks.as_written``."""
