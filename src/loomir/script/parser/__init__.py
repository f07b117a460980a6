"""The TVMScript parser: text to Doc AST, and from there to programs through the builder."""
