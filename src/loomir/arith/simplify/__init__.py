"""The simplifier: rules as data, and canonical forms of polynomials over atoms."""
