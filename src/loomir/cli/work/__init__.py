"""The work of a program: steps of the interpreter, costs of a graph, timings and comparisons."""
