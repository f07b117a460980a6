"""The simplifier: rewrite rules as data, and canonical forms (polynomials over atoms)."""
