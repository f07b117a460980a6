"""Small windows of neighbours: stencils, pooling and depthwise convolution."""
