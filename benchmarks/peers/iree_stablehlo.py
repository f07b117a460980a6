"""IREE: the functions that JAX runs, as StableHLO, compiled for this CPU."""

from __future__ import annotations

from typing import Any

import iree.compiler
import iree.runtime
import jax
import numpy as np

from benchmarks.peers import PreparedRun
from benchmarks.peers.jax_jit import FUNCTIONS
from benchmarks.rows import Row

__all__ = ["Peer"]


class Peer:
    """One thread by ``local-sync``, more by ``local-task``."""

    def __init__(self, threads: int) -> None:
        jax.config.update("jax_platforms", "cpu")
        driver = "local-sync" if threads == 1 else "local-task"
        if threads > 1:
            iree.runtime.flags.parse_flags(f"--task_topology_group_count={threads}")
        self.config = iree.runtime.Config(driver)

    def prepare(self, row: Row, inputs: list[Any]) -> PreparedRun | None:
        """Compile a row."""
        if row.dtype == "bfloat16":
            return None
        import jax.numpy as jnp  # noqa: PLC0415 - after its platform is set

        wide = {"preferred_element_type": jnp.int32} if row.dtype == "int8" else {}
        function = FUNCTIONS[row.kind]
        lowered = jax.jit(lambda *xs: function(*xs, **row.settings, **wide)).lower(*inputs)
        text = str(lowered.compiler_ir("stablehlo"))
        binary = iree.compiler.compile_str(
            text,
            target_backends=["llvm-cpu"],
            input_type="stablehlo",
            extra_args=["--iree-llvmcpu-target-cpu=host", "--iree-opt-level=O3"],
        )
        context = iree.runtime.SystemContext(config=self.config)
        context.add_vm_module(iree.runtime.VmModule.copy_buffer(context.instance, binary))
        (module,) = [m for n, m in context.modules.items() if n not in ("hal", "system")]
        device = self.config.device
        given = [iree.runtime.asdevicearray(device, np.ascontiguousarray(x)) for x in inputs]
        result: list[Any] = [None]

        def run() -> None:
            result[0] = module.main(*given)

        return PreparedRun(run, lambda: result[0].to_host())
