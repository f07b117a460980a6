"""The native run-time library written as LLVM IR: thread pool, objects, checks, fast entry."""
