"""Reductions over small windows of neighbours: stencils, pooling and depthwise convolution."""
