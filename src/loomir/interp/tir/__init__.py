"""The semantics of loops: expressions, statements, blocks, builtins and calls."""
