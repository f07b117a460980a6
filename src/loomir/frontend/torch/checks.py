"""Nodes of a graph that only check, which are left out."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["drop_checks", "is_check"]

_CHECKS: Final = (
    "aten._assert_async",
    "aten._assert_scalar",
    "aten._assert_tensor_metadata",
    "aten._linalg_check_errors",
    "aten.sym_constrain_range",
)
"""Operators that only check. Loomir checks sizes where they are used, and what is computed of a
matrix without an inverse or a factor has infinities and NaN."""


def is_check(node: Any) -> bool:
    """Tell whether a node only checks; ``with_effects`` also returns the token that it takes."""
    if str(node.target) == "with_effects":
        return str(node.args[1]).startswith(_CHECKS)
    return str(node.target).startswith(_CHECKS)


def drop_checks(module: Any) -> None:
    """Remove checks that have effects from a ``GraphModule``, in place.

    A token, by which effects are in order, is None where the graph is called.
    """
    graph = module.graph
    for node in [n for n in graph.nodes if str(n.target) == "with_effects" and is_check(n)]:
        token = node.args[0]
        for user in list(node.users):
            user.replace_all_uses_with(token)
            graph.erase_node(user)
        graph.erase_node(node)
        if token.op == "placeholder":
            token.meta["val"] = None
    module.recompile()
