"""Reductions and scans, along rows, along columns, or over whole arrays."""
