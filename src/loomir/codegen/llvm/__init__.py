"""The LLVM backend: lowered programs to LLVM IR, and that to machine code in this process.

From the bottom: ``assembler`` writes IR as text, ``math`` emits conversions and math functions,
``support`` is the native run-time library, ``emit`` translates TIR and ``relax`` graphs, ``jit``
verifies, optimises, compiles and loads the result.
"""
