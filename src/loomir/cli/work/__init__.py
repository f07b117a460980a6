"""How much a program does: the steps of the interpreter, and what a graph costs."""
