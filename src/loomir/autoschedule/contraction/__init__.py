"""Matrix products in every guise: a stage that sums products of two factors, and what follows."""

from loomir.autoschedule.contraction.plan_contraction import plan_contraction

__all__ = ["plan_contraction"]
