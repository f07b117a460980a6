"""Reads TVMScript: text to Doc AST, Doc AST to programs by way of the builder."""
