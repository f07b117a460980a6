"""Sums of products over any axes, in any form and dtype."""
