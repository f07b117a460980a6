"""Attention: two products and the row-wise stages between them, fused block by block."""
