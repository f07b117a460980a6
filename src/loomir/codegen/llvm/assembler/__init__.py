"""LLVM IR as text: types, values, instructions, modules."""
