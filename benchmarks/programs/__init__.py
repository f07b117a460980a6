"""Programs that users write first, in plain loops, for ``python -m benchmarks.as_written``."""
