"""Entry points of a function, from Python and from C, and the checks of arrays in them."""
