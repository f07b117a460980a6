"""Passes from buffers to memory: where it is allocated, how much, and how elements are indexed."""
