"""Kernels that factor matrices and solve equations, one for each, as LAPACK computes them.

The last two axes of a tensor are matrices, the others a batch.
"""
