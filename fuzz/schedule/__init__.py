"""Random sequences of schedule primitives."""
