"""Rewrite stages into equal stages that rules recognise: inline, collapse, delinearize, split."""
