"""Normal form: normalisation of programs, and the pass infrastructure that preserves it."""
