"""Lowered TIR to LLVM IR: one file per kind of thing, one table per kind of node.

``frame`` is one LLVM function in the making; ``expressions`` and ``statements`` hold the tables
that it goes by. A visitor is a generator: it yields the visitors of parts and returns what it made.
"""
