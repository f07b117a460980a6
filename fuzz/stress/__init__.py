"""Stress tests: threads, signals, forks, small stacks, refused memory and damaged files."""
