"""The meaning of loops: expressions, statements, blocks, builtins and calls."""
