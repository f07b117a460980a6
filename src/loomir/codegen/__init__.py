"""Code generation: lowered TIR and graphs to LLVM IR, and from there to loaded machine code."""
