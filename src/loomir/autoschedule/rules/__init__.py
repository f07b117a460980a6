"""The rules of the default schedule: each recognises one form of stages and writes its loops.

Thresholds were found by timing both alternatives. A comment that gives such a ratio was measured on
a Xeon (Emerald Rapids, AVX-512 and AMX; four virtual cores) unless it names another source. Shapes
are those of ``benchmarks/kernels.py`` or variants of them; scripts for variants were not kept. A
threshold without a ratio was tuned by hand, and its source was not recorded.
"""
