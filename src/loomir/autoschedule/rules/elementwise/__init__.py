"""Element-wise stages: runs of elements, transposes and interleaving."""
