"""Passes on the bindings of a function: normal form, dead code, common subexpressions, order."""
