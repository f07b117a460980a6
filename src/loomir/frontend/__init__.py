"""Importers: models of other frameworks become Relax modules."""
