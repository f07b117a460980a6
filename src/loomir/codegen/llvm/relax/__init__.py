"""Translate graphs to LLVM IR: a function for each Relax function, which calls kernels directly."""
