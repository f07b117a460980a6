"""Definitions of operators: parameters, rules, references, values of calls."""
