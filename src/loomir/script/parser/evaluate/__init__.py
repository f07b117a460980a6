"""Values of expressions while a program is read: names, operators, attributes and calls."""
