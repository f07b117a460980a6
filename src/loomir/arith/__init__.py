"""Proofs over index expressions: bounds, residue classes, canonical forms, rewrite rules."""

from loomir.arith.analyzer import Analyzer, ConstIntBound
from loomir.arith.int_set import IntSet
from loomir.arith.interval import Interval
from loomir.arith.modular import ModularSet

__all__ = ["Analyzer", "ConstIntBound", "IntSet", "Interval", "ModularSet"]
