"""Shared by all IRs: nodes and their roles, traversal, equality, modules, operators, passes."""

from loomir.ir.equality import assert_structural_equal, structural_equal
from loomir.ir.hashing import structural_hash
from loomir.ir.module import BaseFunc, GlobalVar, IRModule
from loomir.ir.node import Node, attr, binds, child, meta, node, uses
from loomir.ir.op import Effect, Op
from loomir.ir.serialize import from_json, to_json
from loomir.ir.substitution import free_definitions, substitute
from loomir.ir.visit import (
    by_class,
    children,
    map_children,
    post_order,
    pre_order,
    rewrite,
    trampoline,
)

__all__ = [
    "BaseFunc",
    "Effect",
    "GlobalVar",
    "IRModule",
    "Node",
    "Op",
    "assert_structural_equal",
    "attr",
    "binds",
    "by_class",
    "child",
    "children",
    "free_definitions",
    "from_json",
    "map_children",
    "meta",
    "node",
    "post_order",
    "pre_order",
    "rewrite",
    "structural_equal",
    "structural_hash",
    "substitute",
    "to_json",
    "trampoline",
    "uses",
]
