"""The engine of passes, copies with new variables, and free variables."""

from __future__ import annotations

from typing import Any

from loomir.ir.equality import assert_structural_equal, structural_equal
from loomir.ir.visit import pre_order
from loomir.relax import (
    Call,
    Function,
    If,
    MatchCast,
    ShapeExpr,
    TensorStructInfo,
    Tuple,
    TupleGetItem,
    Var,
)
from loomir.relax.free_vars import free_relax_vars, free_shape_vars
from loomir.relax.normal.normalize import normal_form_violations, normalize
from loomir.relax.normal.rewriter import Rewriter, all_bindings, copy_with_fresh_vars
from loomir.relax.struct_info import OBJECT
from tests.clause import clauses
from tests.relax.programs import (
    bindings_of,
    block,
    dim,
    flow,
    func,
    let,
    lv,
    module,
    neg,
    op,
    seq,
    tensor,
    values_of,
    var,
)


class Doubled(Rewriter):
    """Negates thrice in place of once."""

    def rewrite_call(self, call: Any):
        return neg(neg(call)) if call.op is op("negative") else call


class Folded(Rewriter):
    """Replaces fields of literal tuples by what is in them."""

    def rewrite_var_binding(self, binding: Any, value: Any):
        if isinstance(value, TupleGetItem):
            found = self.lookup(value.tuple_value)
            if isinstance(found, Tuple):
                self.replace(binding.var, found.fields[value.index])
                return
        self.emit_binding(binding, value)


def a_program():
    c, x = var("c", dtype="bool"), var("x", 2)
    a, b, d, e = lv("a", 2), var("b", 2), var("d", 2), var("e", 2)
    y, f = var("y", 2), Var("f")
    branch = If(c, seq([block(let(d, neg(b)))], d), seq([], b))
    closure = Function((y,), seq([], y), tensor(2))
    return normalize(
        func(
            [c, x],
            seq(
                [flow(let(a, neg(x)), let(b, neg(a))), block(let(f, closure), let(e, branch))],
                e,
            ),
        )
    )


def test_what_nothing_changes_is_the_same_object():
    given = a_program()
    assert Rewriter().rewrite_function(given) is given
    mod = module(main=given)
    assert Rewriter(mod).rewrite_module() is mod


def test_calls_are_rewritten_everywhere_and_results_are_normal():
    given = a_program()
    made = Doubled().rewrite_function(given)
    assert normal_form_violations(made) == ()
    assert normalize(made) is made
    count = sum(isinstance(b.value, Call) for b in all_bindings(made))
    assert count == 3 * sum(isinstance(b.value, Call) for b in all_bindings(given))
    (closure,) = [b for b in all_bindings(made) if isinstance(b.value, Function)]
    assert closure in all_bindings(given)


def test_variables_of_which_the_same_is_known_stay():
    given = a_program()
    made = Doubled().rewrite_function(given)
    old = [b.var for b in all_bindings(given)]
    assert all(v in [b.var for b in all_bindings(made)] for v in old)


def test_variables_are_replaced():
    x, t, y = var("x", 2), Var("t"), Var("y")
    given = normalize(
        func([x], seq([block(let(t, Tuple((x, x))), let(y, TupleGetItem(t, 1)))], neg(y)))
    )
    made = Folded().rewrite_function(given)
    assert values_of(made)[-1].args == (x,)
    assert len(bindings_of(made)) == 2


def test_what_is_known_of_variables_follows_what_they_are_bound_to():
    class Widened(Rewriter):
        def rewrite_leaf(self, value: Any):
            return ShapeExpr((2, 3)) if isinstance(value, ShapeExpr) else value

    x, s, r = var("x", 6), Var("s"), Var("r")
    given = normalize(func([x], seq([block(let(s, ShapeExpr((6,))), let(r, Tuple((s, x))))], r)))
    made = Widened().rewrite_function(given)
    first, second = bindings_of(made)
    assert first.var.struct_info.ndim == 2
    assert second.var.struct_info.fields[0].ndim == 2
    assert made.body.body is second.var


def test_shape_variables_are_replaced():
    n = dim()

    class Fixed(Rewriter):
        def rewrite_parameter(self, param: Any):
            self.replace(n, as_dim(4))
            return param

    from loomir.relax.shape import as_dim

    x = var("x", n)
    given = normalize(
        func([x], seq([block(let(Var("s"), ShapeExpr((n + 1,))))], neg(x)), tensor(n))
    )
    made = Fixed().rewrite_function(given)
    assert_structural_equal(made.params[0].struct_info, tensor(4))
    assert_structural_equal(bindings_of(made)[0].value, ShapeExpr((as_dim(4) + 1,)))
    assert_structural_equal(made.ret_struct_info, tensor(4))
    assert n not in list(pre_order(made))


def test_functions_are_added_to_the_module():
    class Outlined(Rewriter):
        def rewrite_call(self, call: Any):
            y = var("y", 2)
            gv = self.builder.add_func(normalize(func([y], neg(y), tensor(2))), "negated")
            return Call(gv, call.args)

    x = var("x", 2)
    mod = normalize(module(main=func([x], neg(neg(x)))))
    made = Outlined(mod).rewrite_module()
    assert list(made) == ["main", "negated", "negated1"]
    assert normalize(made) is made


def test_long_and_deep_programs_are_rewritten():
    x = var("x", 2)
    nested = x
    for _ in range(5_000):
        nested = neg(nested)
    given = normalize(func([x], nested))
    assert Rewriter().rewrite_function(given) is given
    assert len(bindings_of(Doubled().rewrite_function(given))) == 15_000
    c, branch = var("c", dtype="bool"), x
    for _ in range(500):
        branch = If(c, branch, x)
    given = normalize(func([c, x], branch))
    assert Rewriter().rewrite_function(given) is given
    assert structural_equal(copy_with_fresh_vars(given), given)


# -- copies ---------------------------------------------------------------------------------------
def test_copies_have_variables_of_their_own():
    n, m = dim("n"), dim("m")
    x, y, z = var("x", n), Var("y", OBJECT), var("z", m, n)
    cast = MatchCast(z, y, tensor(m, n))
    w = Var("w", tensor(m, n))
    given = normalize(func([x, y], seq([block(cast, let(w, neg(z)))], w), OBJECT))
    made = copy_with_fresh_vars(given)
    assert_structural_equal(made, given)
    names = {x, y, z, w, n, m}
    assert names.isdisjoint(pre_order(made))
    assert names.isdisjoint(made.params)
    assert names.isdisjoint(b.var for b in all_bindings(made))
    for bound in (*made.params, *(b.var for b in all_bindings(made))):
        assert names.isdisjoint(pre_order(bound.struct_info))


def test_copies_keep_what_is_captured():
    n = dim()
    x, y = var("x", n), var("y", n)
    inner = Function((y,), seq([], Tuple((x, ShapeExpr((n,))))))
    made = copy_with_fresh_vars(inner)
    assert free_relax_vars(made) == [x]


# -- free variables -------------------------------------------------------------------------------
@clauses("RX-SURV-19", "RX-VALS-04")
def test_closures_capture_variables_of_outer_scopes():
    x, y, z = var("x", 2), var("y", 2), var("z", 2)
    inner = Function((y,), seq([block(let(z, Tuple((x, y))))], Tuple((z, x))))
    assert free_relax_vars(inner) == [x]
    assert free_relax_vars(z) == [z]


@clauses("RX-SCOPE-03")
def test_a_function_does_not_capture_itself():
    y, f, x = var("y", 2), Var("f"), var("x", 2)
    inner = Function((y,), seq([], Call(f, (y,))), tensor(2))
    assert free_relax_vars(inner) == [f]
    outer = Function((x,), seq([block(let(f, inner))], Call(f, (x,))))
    assert free_relax_vars(outer) == []


@clauses("RX-SURV-18")
def test_variables_of_a_branch_end_with_it():
    c, x, y = var("c", dtype="bool"), var("x", 2), var("y", 2)
    branch = If(c, seq([block(let(y, neg(x)))], y), seq([], y))
    assert free_relax_vars(branch) == [c, x, y]


@clauses("RX-DIM-06", "RX-SURV-04")
def test_closures_capture_shape_variables():
    n, m, k = dim("n"), dim("m"), dim("k")
    y, z = var("y", n, m), var("z", k)
    inner = Function((y,), seq([block(MatchCast(z, y, tensor(k)))], ShapeExpr((n, k, m * 2))))
    assert free_shape_vars(inner) == []
    assert free_shape_vars(inner, [n]) == [n]
    assert free_shape_vars(Function((), seq([], ShapeExpr((n + k,))))) == [n, k]


def test_annotations_use_shape_variables():
    n = dim()
    x, y = Var("x", TensorStructInfo(None, "float32", ndim=1)), var("y", n)
    assert free_shape_vars(seq([block(let(y, neg(x)))], y)) == [n]
    s = Var("s", OBJECT)
    shaped = Call(op("negative"), (x,), (tensor(n * 2),))
    assert free_shape_vars(shaped) == [n]
    assert free_relax_vars(seq([block(let(s, x))], s)) == [x]
