"""Functions of a module: their names, parameters, results and calls."""
