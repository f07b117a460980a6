"""Matrix products: tiling, packing, micro-kernels and epilogues."""
