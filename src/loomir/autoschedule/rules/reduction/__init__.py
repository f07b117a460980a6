"""Reductions and scans, along rows, columns or everything."""
