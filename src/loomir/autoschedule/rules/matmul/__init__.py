"""Matrix products (GEMM): tile sizes, packing, micro-kernels, prologues and epilogues."""
