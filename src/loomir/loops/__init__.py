"""Analyses of loop nests: accesses, regions, dependences, ranges of variables, conditions."""
