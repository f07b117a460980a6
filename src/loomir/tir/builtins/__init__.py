"""The builtins of TIR, as rows of one table: operands, results and effects."""
