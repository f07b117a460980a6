"""Graphs as LLVM IR: one function for each Relax function, which calls its kernels directly."""
