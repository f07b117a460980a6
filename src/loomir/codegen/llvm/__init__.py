"""The LLVM backend.

From the bottom: ``types``, ``names`` and ``values`` are what IR text is made of; ``text`` and
``builder`` write it; ``engine`` verifies, optimises, emits and loads; ``floats``, ``mathlib`` and
``pool`` are what generated code leans on.
"""
