"""Conversions and math functions as LLVM IR, for floats and doubles with any number of lanes.

``mathlib`` is the table of functions. Each treats every lane by itself, so a result does not depend
on the number of lanes. Results rely on fused multiply-add; on a CPU without it, the C library's
``fma`` gives the same bits.
"""
