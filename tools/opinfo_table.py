"""Compare converters with PyTorch on PyTorch's samples: ``python -m tools.opinfo_table``.

``torch.testing`` has samples for each operator, its OpInfos. They are run, and each call of an
overload that has a converter is recorded. The overload is then compiled by itself for these
arguments, and its results are compared with those of PyTorch. ``--write`` puts the counts into
``docs/reference/torch-operators.md``.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib
import multiprocessing
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from loomir.frontend.torch.converters import load_converters
from loomir.frontend.torch.dtypes import tensor_of, view_parts
from loomir.frontend.torch.registry import known_operators

PAGE: Final = Path(__file__).parents[1] / "docs" / "reference" / "torch-operators.md"
HEAD: Final = """# Operators of PyTorch

`loomir.torch.from_exported` and `torch.compile(model, backend="loomir")` take programs of these
overloads of ATen's operators; PyTorch breaks most others into them. What a note leaves out, and
every other operator, is refused with its name and the line of the model
([PTC0010](../errors/PTC0010.md), [PTC0011](../errors/PTC0011.md)), and can be taught:
`loomir.torch.register_converter`.

`python -m tools.opinfo_table --samples 1 --dtypes float32 --write` writes this page: it compiles
each overload on a sample of each of PyTorch's own tests of operators (OpInfo), and compares the
results with PyTorch. A dash stands where these call no such overload. Samples that do not pass are
refused with an error, not computed wrongly, unless the command says otherwise. The command needs
the package `expecttest`, as those tests do.

| operator | samples | passed | what it does not take |
| --- | --- | --- | --- |
"""
DTYPES: Final = ("float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool")
_TOLERANCES: Final = {
    "float64": (1e-7, 1e-7), "float32": (1e-4, 1e-5), "float16": (4e-3, 4e-3),
    "bfloat16": (3e-2, 3e-2),
}  # fmt: skip
_ROW: Final = re.compile(r"^\| `([\w.]+)` \| (\S+) \| (\S+) \|", re.MULTILINE)
_NEVER_COMPARED: Final = ("aten.empty", "aten.new_empty", "aten._local_scalar_dense")
"""What is undefined, and what makes no tensor."""


def page(counts: dict[str, tuple[str, str]]) -> str:
    """Write the page, with the counts of samples and of those that passed."""
    load_converters()
    lines: list[str] = []
    for name, row in known_operators().items():
        samples, passed = counts.get(name, ("–", "–"))
        lines.append(f"| `{name}` | {samples} | {passed} | {row.note} |")
    return HEAD + "\n".join(lines) + "\n"


def counts_of_page() -> dict[str, tuple[str, str]]:
    """Read the counts that the page has."""
    if not PAGE.exists():
        return {}
    found = _ROW.findall(PAGE.read_text(encoding="utf-8"))
    return {name: (samples, passed) for name, samples, passed in found}


# -- samples -------------------------------------------------------------------------------------
def collect(info: Any, dtype: str, most: int) -> dict[str, list[tuple[Any, Any]]]:
    """Run an OpInfo's samples, and return the arguments of each overload with a converter."""
    torch: Any = importlib.import_module("torch")
    from torch.utils._python_dispatch import TorchDispatchMode  # noqa: PLC0415
    from torch.utils._pytree import tree_map_only  # noqa: PLC0415

    known = known_operators()
    found: dict[str, list[tuple[Any, Any]]] = defaultdict(list)
    seen: set[str] = set()

    class Recorder(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            name = str(func)
            if name in known and len(found[name]) < most:
                key = f"{name}{_signature(args)}{_signature(kwargs or {})}"
                if key not in seen:
                    seen.add(key)
                    kept = tree_map_only(torch.Tensor, lambda t: t.detach().clone(), args)
                    named = tree_map_only(
                        torch.Tensor, lambda t: t.detach().clone(), dict(kwargs or {})
                    )
                    found[name].append((kept, named))
            return func(*args, **(kwargs or {}))

    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    try:
        samples = list(info.sample_inputs("cpu", kind, requires_grad=False))
    except Exception:  # noqa: BLE001 - some need packages that are not here
        return {}
    for sample in samples:
        with torch.no_grad(), Recorder():
            try:
                info.op(sample.input, *sample.args, **sample.kwargs)
            except Exception:  # noqa: BLE001 - some samples are to be refused
                continue
    return found


def _op_db() -> Any:
    return importlib.import_module("torch.testing._internal.common_methods_invocations").op_db


def _signature(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}{tuple(value.shape)}"
    if isinstance(value, dict):
        named: dict[str, Any] = {**value}
        return "".join(f"{k}={_signature(v)}" for k, v in named.items())
    if isinstance(value, (list, tuple)):
        return f"({','.join(_signature(v) for v in _listed(value))})"
    return repr(value)


# -- one call ------------------------------------------------------------------------------------
def check(name: str, args: Any, kwargs: Any) -> str:
    """Compile an overload for arguments and compare; returns what is wrong, or nothing."""
    torch: Any = importlib.import_module("torch")

    import loomir  # noqa: PLC0415
    from loomir.frontend.torch.decompositions import overload_of  # noqa: PLC0415
    from loomir.frontend.torch.program import translate  # noqa: PLC0415

    target = overload_of(name)
    want = target(*args, **kwargs)
    module, tensors = _graph(torch, target, args, kwargs, want)
    try:
        made = translate(module, constants={}, takes_complex=True)
        function = loomir.compile(made.module)["main"]
        given = [view_parts(t) if t.is_complex() else t for t in tensors]
        got = function(*[t.contiguous() for t in given])
    except loomir.LoomirError as error:
        return str(error).splitlines()[0]
    wanted = [w for w in _listed(want) if isinstance(w, torch.Tensor)]
    found = _listed(got)
    for w, g in zip(wanted, found, strict=True):
        wrong = _compared(torch, g, w)
        if wrong:
            break
    else:
        return ""
    return "" if _is_as_exact(torch, target, args, kwargs, (found, wanted)) else wrong


def _is_as_exact(torch: Any, target: Any, args: Any, kwargs: Any, results: Any) -> bool:
    """Tell whether results are as near as PyTorch's own to those in float64."""
    tree_map_only = importlib.import_module("torch.utils._pytree").tree_map_only
    small = (torch.float16, torch.bfloat16, torch.float32)
    if not any(w.dtype in small for w in results[1]):
        return False

    def widened(tensor: Any) -> Any:
        return tensor.double() if tensor.dtype in small else tensor

    given, named = tree_map_only(torch.Tensor, widened, (args, dict(kwargs)))
    named = {k: torch.float64 if v in small else v for k, v in named.items()}
    exact = [e for e in _listed(target(*given, **named)) if isinstance(e, torch.Tensor)]
    for got, want, best in zip(*results, exact, strict=True):
        if not want.dtype.is_floating_point:
            return False
        errors = [(tensor_of(r).double() - best).abs().nan_to_num().max() for r in (got, want)]
        if errors[0] > 2 * errors[1] or not torch.equal(tensor_of(got).isnan(), best.isnan()):
            return False
    return True


def _listed(value: Any) -> list[Any]:
    return [*value] if isinstance(value, (list, tuple)) else [value]


def _graph(torch: Any, target: Any, args: Any, kwargs: Any, want: Any) -> tuple[Any, list[Any]]:
    """Make a graph of one call, whose inputs are the tensors among the arguments."""
    import operator  # noqa: PLC0415

    from torch.utils._pytree import tree_map_only  # noqa: PLC0415

    graph = torch.fx.Graph()
    tensors: list[Any] = []

    def placeholder(tensor: Any) -> Any:
        node = graph.placeholder(f"x{len(tensors)}")
        node.meta["val"] = tensor
        tensors.append(tensor)
        return node

    given = tree_map_only(torch.Tensor, placeholder, args)
    named = tree_map_only(torch.Tensor, placeholder, kwargs)
    call = graph.call_function(target, tuple(given), named)
    call.meta["val"] = want
    outputs: list[Any] = []
    if isinstance(want, torch.Tensor):
        outputs.append(call)
    else:
        for i, value in enumerate(want):
            if isinstance(value, torch.Tensor):
                part = graph.call_function(operator.getitem, (call, i))
                part.meta["val"] = value
                outputs.append(part)
    graph.output(tuple(outputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph), tensors


def _compared(torch: Any, got: Any, want: Any) -> str:
    got, want = tensor_of(got), view_parts(want) if want.is_complex() else want
    if got.dtype != want.dtype:
        return f"dtype {got.dtype} in place of {want.dtype}"
    relative, absolute = _TOLERANCES.get(str(want.dtype).rpartition(".")[2], (0, 0))
    try:
        torch.testing.assert_close(got, want, rtol=relative, atol=absolute, equal_nan=True)
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


# -- the table -----------------------------------------------------------------------------------
def _work(job: tuple[str, str, int, str]) -> list[tuple[str, str, str]]:
    """Check the samples of one OpInfo in one dtype: overload, arguments, what is wrong."""
    torch: Any = importlib.import_module("torch")
    op_db = _op_db()
    name, dtype, most, only = job
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    load_converters()
    made: list[tuple[str, str, str]] = []
    for info in op_db:
        if info.full_name != name:
            continue
        for overload, calls in collect(info, dtype, most).items():
            if (only and only not in overload) or overload.startswith(_NEVER_COMPARED):
                continue
            for args, kwargs in calls:
                try:
                    wrong = check(overload, args, kwargs)
                except Exception as error:  # noqa: BLE001 - is what the table counts
                    wrong = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
                made.append((overload, f"{_signature(args)} {_signature(kwargs)}", wrong))
    return made


def jobs(only: str, most: int, dtypes: Sequence[str]) -> Iterator[tuple[str, str, int, str]]:
    """List what is to be run: each OpInfo in each dtype that it takes."""
    torch: Any = importlib.import_module("torch")
    op_db = _op_db()
    for info in op_db:
        for dtype in dtypes:
            if getattr(torch, dtype) in info.dtypes:
                yield info.full_name, dtype, most, only


def run(only: str, most: int, workers: int, dtypes: Sequence[str]) -> dict[str, dict[str, str]]:
    """Check all samples; returns what is wrong by overload and arguments."""
    results: dict[str, dict[str, str]] = defaultdict(dict)
    todo = list(jobs(only, most, dtypes))
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
        for made in pool.map(_work, todo):
            for overload, arguments, wrong in made:
                if wrong and arguments not in results[overload]:
                    print(f"{overload} {arguments[:150]}: {wrong}", file=sys.stderr, flush=True)
                if len(results[overload]) < most * len(DTYPES) or wrong:
                    results[overload].setdefault(arguments, wrong)
    return results


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description="Compare converters with PyTorch.")
    parser.add_argument("--only", default="", help="overloads whose name has this in it")
    parser.add_argument("--samples", type=int, default=4, help="of each OpInfo and dtype")
    parser.add_argument("--dtypes", nargs="+", default=DTYPES, help="of samples")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--write", action="store_true", help="write the page")
    options = parser.parse_args(arguments)
    results = run(options.only, options.samples, options.jobs, options.dtypes)
    counts = counts_of_page()
    print(f"{'operator':60} samples  passed")
    for overload in sorted(results):
        found = results[overload]
        passed = sum(not wrong for wrong in found.values())
        print(f"{overload:60} {len(found):7}  {passed:6}")
        counts[overload] = (str(len(found)), str(passed))
    total = sum(len(found) for found in results.values())
    good = sum(not wrong for found in results.values() for wrong in found.values())
    print(f"{len(results)} operators, {total} samples, {good} passed")
    if options.write:
        PAGE.write_text(page(counts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
