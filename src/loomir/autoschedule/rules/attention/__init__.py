"""Attention: two products and what is done to rows in between, fused block by block."""
