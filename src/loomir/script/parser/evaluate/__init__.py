"""Evaluate expressions at parse time: names, operators, attributes and calls."""
