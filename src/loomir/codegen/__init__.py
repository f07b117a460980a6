"""From lowered TIR to machine code: ``llvm`` emits LLVM IR and loads what LLVM makes of it."""
