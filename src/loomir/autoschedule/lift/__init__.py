"""Lift loop nests to stages: from statements as they are written to what they compute."""
