"""Analyses that passes and checks share: accesses, effects, cost, ranges."""
