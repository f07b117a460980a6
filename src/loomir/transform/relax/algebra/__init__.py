"""Algebraic rewrites of operators: reorder, merge and fold products."""
