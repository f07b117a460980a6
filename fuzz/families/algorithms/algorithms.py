"""Textbook algorithms, as people write them: solvers, tables, transforms, sieves, simulations.

Loops carry dependences, change what they read, run over triangles, double their step, or alternate
between two arrays. Each is drawn with random dtypes, sizes and layouts of arguments, and with small
changes. The text of a program, run as Python, is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fuzz.choices import SeedChoices
from fuzz.families.algorithms.rows import Rows
from fuzz.families.algorithms.tables import Tables
from fuzz.families.cases import Case

__all__ = ["VERSION", "draw"]

VERSION: Final = 1


def draw(seed: int) -> Case:
    """Draw the case of a seed."""
    made = _Algorithms(SeedChoices(f"algorithms {VERSION} {seed}"))
    return made.case(seed)


class _Algorithms(Tables, Rows):
    def case(self, seed: int) -> Case:
        """Draw a program and its arguments."""
        every: list[Callable[[], None]] = [
            self.elimination,
            self.triangular,
            self.cholesky,
            self.shortest_paths,
            self.edit_distance,
            self.subsequence,
            self.knapsack,
            self.integral_image,
            self.pascal,
            self.heat,
            self.life,
            self.relaxation,
            self.sieve,
            self.butterflies,
            self.bitonic,
            self.horner,
            self.mandelbrot,
            self.hashes,
            self.softmax_in_place,
            self.rows_in_place,
            self.gram_schmidt,
            self.power_iteration,
            self.viterbi,
            self.filters,
            self.recurrent,
            self.clusters,
            self.chain_product,
            self.transposed_in_place,
            self.tree,
            self.halving,
            self.thresholds,
            self.covariance,
            self.quantise,
            self.stacked_sums,
            self.scaled_sums,
            self.packed_bits,
            self.online_softmax,
            self.pairwise,
            self.two_products,
            self.upsampled,
        ]
        self.c.pick(every)()
        return self.d.case("algorithms", seed)
