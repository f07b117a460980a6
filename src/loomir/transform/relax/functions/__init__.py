"""Passes on the functions of a module: names, parameters, results and calls."""
