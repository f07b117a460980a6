"""The builtins of TIR, as rows of one table: what each takes, gives and may do."""
