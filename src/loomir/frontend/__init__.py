"""Models of other frameworks, brought into Relax."""
