"""Conversions and math functions as LLVM IR, on floats and doubles of any lanes.

``mathlib`` is the table of functions. Each treats each lane by itself: what a lane gives does not
depend on how many there are. Fused multiply-add is part of the results; a CPU without it calls the
C library for it and gives the same.
"""
