"""Threads, signals, forks, small stacks, refused memory and damaged files, for as long as asked."""
