"""Benchmarks, printed as tables of ratios that are measured in one run."""
