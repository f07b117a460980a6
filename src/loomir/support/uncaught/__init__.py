"""Show uncaught errors in scripts and notebooks."""
