"""Translate lowered TIR to LLVM IR: one table for each kind of node, one file for each topic.

``frame`` is the state of one LLVM function under construction; ``expressions`` and ``statements``
are the tables. A visitor is a generator: it yields the visitors of its operands and returns the
result, so that nothing recurses over the program.
"""
