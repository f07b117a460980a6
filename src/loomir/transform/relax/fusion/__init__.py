"""Kernel fusion: group kernels, merge them, and inline what they compute for each other."""
