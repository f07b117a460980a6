"""Rewrite stages into equal ones that rules recognise: inline, collapse, delinearize, split."""
