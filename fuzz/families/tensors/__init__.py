"""Chains of tensor expressions."""
