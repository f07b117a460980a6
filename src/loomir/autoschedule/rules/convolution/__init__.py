"""Convolutions as matrix products: implicit GEMM, and direct convolution in vectors of channels."""
