"""Compare graphs with apache-tvm's virtual machine and ONNX Runtime: dispatch, models, compiling.

- *Dispatch*: the overhead of a kernel in a graph, from chains of kernels on four floats that nobody
  can fuse: the time of long chains minus that of short ones, for each kernel.
- *Calls*: the overhead of a call from Python: three arrays of four floats in, one out.
- *Models*: the same graph, weights and inputs on all sides, with constant weights; each compiles
  with its defaults.
- *Compiling*: functions of 10 to 5,000 operators, from the module to the first call.

Peers that are not installed (the extra ``bench``) are left out. All sides take turns in one run.
Run: python -m benchmarks.graphs [--most BINDINGS]
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import loomir
from benchmarks.compile_time import seconds
from benchmarks.table import measure, print_table
from loomir.script import from_source

HEAD: Final = {
    "loomir": "from loomir.script import ir as I, relax as R, tir as T\n",
    "apache-tvm": "",  # it knows the names
}
SIZES: Final = (10, 100, 1_000, 5_000)


# -- programs ----------------------------------------------------------------------------------
def chain(kernels: int, decorator: str) -> str:
    """Write a chain of kernels, each of which needs all of the one before."""
    calls = "".join(
        f"        x{k + 1} = R.call_tir(cls.scan, (x{k},), {{out}}=R.Tensor((4,), 'float32'))\n"
        for k in range(kernels)
    )
    return f"""
@I.ir_module
class Module:
    {decorator}
    def scan(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({{{{"op_pattern": 8}}}})
        for i in range(4):
            with T.sblock("scan"):
                vi = T.axis.opaque(4, i)
                B[vi] = A[(vi + 1) % 4]

    @R.function
    def main(x0: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        cls = Module
{calls}        return x{kernels}
""".format(out="out_sinfo" if "s_tir" not in decorator else "out_ty")


def operators(count: int) -> str:
    """Write a graph of so many operators, of several kinds and shapes."""
    lines: list[str] = []
    for k in range(count):
        kind = k % 5
        value = (
            f"R.add(x{k}, y)",
            f"R.multiply(x{k}, y)",
            f"R.nn.relu(x{k})",
            f"R.subtract(x{k}, x{max(k - 3, 0)})",
            f"R.nn.softmax(x{k}, axis=-1)",
        )[kind]
        lines.append(f"            x{k + 1} = {value}\n")
    return f"""
@I.ir_module
class Module:
    @R.function
    def main(x0: R.Tensor((8, 16), "float32"), y: R.Tensor((16,), "float32")):
        with R.dataflow():
{"".join(lines)}            R.output(x{count})
        return x{count}
"""


def perceptron(layers: int, width: int, batch: int) -> tuple[str, dict[str, Any]]:
    """Write a perceptron, and make its inputs."""
    rng = np.random.default_rng(0)
    inputs: dict[str, Any] = {"h0": rng.standard_normal((batch, width)).astype("float32")}
    params = [f'h0: R.Tensor(({batch}, {width}), "float32")']
    lines: list[str] = []
    for k in range(1, layers + 1):
        params += [
            f'w{k}: R.Tensor(({width}, {width}), "float32")',
            f'b{k}: R.Tensor(({width},), "float32")',
        ]
        scale = width**-0.5
        inputs[f"w{k}"] = (rng.standard_normal((width, width)) * scale).astype("float32")
        inputs[f"b{k}"] = rng.standard_normal(width).astype("float32")
        lines += [
            f"            m{k} = R.matmul(h{k - 1}, w{k})\n",
            f"            s{k} = R.add(m{k}, b{k})\n",
            f"            h{k} = R.nn.relu(s{k})\n",
        ]
    text = f"""
@I.ir_module
class Module:
    @R.function
    def main({", ".join(params)}) -> R.Tensor(({batch}, {width}), "float32"):
        with R.dataflow():
{"".join(lines)}            R.output(h{layers})
        return h{layers}
"""
    return text, inputs


def perceptron_of_onnx(layers: int, width: int, batch: int, weights: dict[str, Any]) -> Any:
    """Make the same perceptron for ONNX Runtime, its weights as initializers."""
    onnx = importlib.import_module("onnx")
    helper = onnx.helper
    nodes: list[Any] = []
    described = [helper.make_tensor_value_info("h0", 1, [batch, width])]
    constants = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    for k in range(1, layers + 1):
        nodes += [
            helper.make_node("MatMul", [f"h{k - 1}", f"w{k}"], [f"m{k}"]),
            helper.make_node("Add", [f"m{k}", f"b{k}"], [f"s{k}"]),
            helper.make_node("Relu", [f"s{k}"], [f"h{k}"]),
        ]
    out = helper.make_tensor_value_info(f"h{layers}", 1, [batch, width])
    graph = helper.make_graph(nodes, "perceptron", described, [out], constants)
    opset = helper.make_opsetid("", 20)
    return helper.make_model(graph, opset_imports=[opset], ir_version=10)


# -- sides -------------------------------------------------------------------------------------
Run = Callable[[], Any]


class Loomir:
    """This compiler."""

    name = "loomir"
    decorator = "@T.prim_func"

    def load(self, text: str) -> Any:
        """Read a module."""
        return from_source(HEAD[self.name] + text)

    def ready(self, mod: Any, inputs: list[Any], weights: dict[str, Any] | None = None) -> Run:
        """Compile, and give what runs it once."""
        run = loomir.compile(mod, cache=False, constants=weights)["main"]
        return lambda: run(*inputs)


class Tvm:
    """The virtual machine of apache-tvm."""

    name = "apache-tvm"
    decorator = "@T.prim_func(s_tir=True)"

    def __init__(self) -> None:
        self.tvm = importlib.import_module("tvm")
        self.script = importlib.import_module("tvm.script")
        self.relax = importlib.import_module("tvm.relax")

    def load(self, text: str) -> Any:
        """Read a module."""
        return self.script.from_source(HEAD[self.name] + text)

    def ready(self, mod: Any, inputs: list[Any], weights: dict[str, Any] | None = None) -> Run:
        """Compile, and give what runs it once."""
        if weights:
            given = {name: self.tvm.runtime.tensor(x) for name, x in weights.items()}
            mod = self.relax.transform.BindParams("main", given)(mod)
        built = self.tvm.compile(mod, target="llvm")
        run = self.relax.VirtualMachine(built, self.tvm.cpu())["main"]
        given = [self.tvm.runtime.tensor(x) for x in inputs]
        return lambda: run(*given)


def installed(name: str) -> bool:
    """Whether a package can be imported."""
    return importlib.util.find_spec(name) is not None


def as_array(value: Any) -> Any:
    """Return a result as a NumPy array."""
    return value if isinstance(value, np.ndarray) else value.numpy()


# -- tables ------------------------------------------------------------------------------------
def dispatch(sides: list[Any]) -> None:
    """Print what a kernel costs."""
    runs: dict[str, Run] = {}
    x = np.ones(4, "float32")
    for side in sides:
        for kernels in (20, 520):
            run = side.ready(side.load(chain(kernels, side.decorator)), [x])
            assert np.array_equal(as_array(run()), x)
            runs[f"{side.name}, {kernels} kernels"] = run
    found = measure(runs, rounds=31, number=50)
    print_table("chains of kernels on four floats, one call", found, "loomir, 20 kernels")
    for side in sides:
        low, high = (found[f"{side.name}, {k} kernels"] for k in (20, 520))
        print(f"{side.name}: {(high - low) / 500 * 1e9:.1f} ns for each kernel")


def calls(sides: list[Any]) -> None:
    """Print what a call from Python costs."""
    text = """
@I.ir_module
class Module:
    @R.function
    def main(
        x: R.Tensor((4,), "float32"), y: R.Tensor((4,), "float32"), z: R.Tensor((4,), "float32")
    ) -> R.Tensor((4,), "float32"):
        with R.dataflow():
            s = R.add(x, y)
            t = R.multiply(s, z)
            R.output(t)
        return t
"""
    inputs = [np.full(4, k, "float32") for k in (1, 2, 3)]
    runs = {side.name: side.ready(side.load(text), inputs) for side in sides}
    for run in runs.values():
        assert as_array(run()).tolist() == [9, 9, 9, 9]
    found = measure(runs, rounds=31, number=2_000)
    print_table("a call of a graph, three arrays in, one out", found, "loomir")


def models(sides: list[Any]) -> None:
    """Print the time of whole models."""
    for layers, width, batch in ((4, 64, 1), (4, 64, 32), (4, 512, 32)):
        text, weights = perceptron(layers, width, batch)
        inputs = {"h0": weights.pop("h0")}
        runs = {
            side.name: side.ready(side.load(text), list(inputs.values()), weights) for side in sides
        }
        if installed("onnxruntime") and installed("onnx"):
            session = importlib.import_module("onnxruntime").InferenceSession(
                perceptron_of_onnx(layers, width, batch, weights).SerializeToString(),
                providers=["CPUExecutionProvider"],
            )
            runs["onnxruntime"] = lambda s=session, i=inputs: s.run(None, i)[0]
        results = {name: as_array(run()) for name, run in runs.items()}
        for name, result in results.items():
            np.testing.assert_allclose(
                result, results["loomir"], rtol=1e-3, atol=1e-3, err_msg=name
            )
        title = f"a perceptron of {layers} layers of {width}, batch {batch}"
        print_table(title, measure(runs, rounds=15, number=20), "loomir")


def compiling(sides: list[Any], most: int) -> None:
    """Print the time from a module to its first result."""
    x = np.random.default_rng(0).standard_normal((8, 16)).astype("float32")
    y = np.ones(16, "float32")
    print("\nfrom a module to its first result, seconds, and the peer's time over Loomir's")
    for count in (s for s in SIZES if s <= most):
        taken: dict[str, float] = {}
        for side in sides:
            mod = side.load(operators(count))
            taken[side.name], _ = seconds(lambda s=side, m=mod: s.ready(m, [x, y])())
        cells = "".join(f"{name} {value:9.3f}   " for name, value in taken.items())
        ratio = taken.get("apache-tvm", float("nan")) / taken["loomir"]
        print(f"{count:>6} operators   {cells}{ratio:6.2f}")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--most", type=int, default=5_000, help="operators of the largest graph")
    most: int = parser.parse_args().most
    sides: list[Any] = [Loomir(), *([Tvm()] if installed("tvm") else [])]
    calls(sides)
    dispatch(sides)
    models(sides)
    compiling(sides, most)


if __name__ == "__main__":
    main()
