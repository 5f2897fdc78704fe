"""What is mutated: the textual tests' files, compiled layers, configurations, graphs, routings."""

from __future__ import annotations

import io
import re
import tempfile
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiled_files import read_compiled, write_compiled
from hpmoe_ir.driver.compiler import compile_module, module_text
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RoutingSpec, generate_routing
from hpmoe_ir.machines.machine import MACHINE_DIR
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.execution import build_program

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

TEST = Path(__file__).parents[1]
SEPARATOR = "// -----"
LAYER = LayerConfig("small", hidden=32, width=16, experts=4, top_k=2, ranks=2, tokens=6)

DEEPSEEK = """{
  "model_type": "deepseek_v3",
  "hidden_act": "silu",
  "hidden_size": 7168,
  "intermediate_size": 18432,
  "moe_intermediate_size": 2048,
  "n_routed_experts": 256,
  "num_experts_per_tok": 8,
  "n_shared_experts": 1,
  "norm_topk_prob": true,
  "scoring_func": "sigmoid",
  "routed_scaling_factor": 2.5,
  "ep_size": 1,
  "torch_dtype": "bfloat16"
}
"""

MIXTRAL = """{"text_config": {"model_type": "mixtral", "hidden_size": 4096, "num_local_experts": 8,
  "intermediate_size": 14336, "num_experts_per_tok": 2}, "vision_config": {}}
"""

MINDFORMERS = """
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'deepseekV3'
runner_config:
  epochs: 1
  batch_size: 2
parallel_config:
  data_parallel: 4
  expert_parallel: 32
model:
  model_config:
    model_type: "deepseek_v3"
    seq_length: 4096
    hidden_size: 7168
    intermediate_size: 18432
    add_bias_linear: False
    compute_dtype: "bfloat16"
    gated_linear_unit: True
    moe_intermediate_size: 2048
"""

PYNATIVE = """
training: &t
  local_batch_size: 3
parallelism: {expert_parallel: 2}
model:
  model_type: telechat3_moe
  seq_length: 100
  hidden_size: 1792
  hidden_act: swiglu
  moe_ffn_hidden_size: 1024
  expert_num: 8
  num_experts_chosen: 4
  num_experts: 8
  swiglu_limit:
"""


@dataclass
class Seeds:
    """Inputs that the commands take, or took before they were broken by hand."""

    ir: dict[str, list[tuple[str, str]]] = field(
        default_factory=lambda: defaultdict[str, list[tuple[str, str]]](list)
    )
    """By level: name and text, custom and generic."""
    compiled: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The files of a directory that `hpmoe compile` has written."""
    configs: dict[str, str] = field(default_factory=dict[str, str])
    machines: dict[str, str] = field(default_factory=dict[str, str])
    mindir: dict[str, bytes] = field(default_factory=dict[str, bytes])
    routing: dict[str, Array] = field(default_factory=dict[str, Array])
    graph: str = ""
    """A small layer at the moe level."""
    pipelines: list[str] = field(default_factory=list[str])

    def texts(self, level: str) -> list[str]:
        """All texts of a level."""
        return [text for _, text in self.ir[level]]


def level_of_text(text: str) -> str:
    """The level of a text, by the operations that it has."""
    for level in ("queue", "tile", "comm"):
        if re.search(rf"(?<![#!\w.]){level}\.\w", text):
            return level
    return "moe"


def collect() -> Seeds:
    """Reads and makes all seeds."""
    seeds = Seeds()
    for path in sorted((TEST / "filecheck").rglob("*.mlir")):
        for i, piece in enumerate(path.read_text().split(SEPARATOR)):
            text = "\n".join(l for l in piece.splitlines() if not l.startswith("//")) + "\n"
            if "%s" not in text:
                seeds.ir[level_of_text(text)].append((f"{path.name}:{i}", text))
    for path in sorted((TEST / "filecheck").rglob("*.*")):
        if path.suffix in (".mlir", ".test"):
            for found in re.findall(r"RUN:.* -p ('[^']*'|\S+)", path.read_text()):
                pipeline = found.strip("'").replace("%S/inputs/", "").replace("%S/", "")
                if pipeline not in seeds.pipelines:
                    seeds.pipelines.append(pipeline)
    _compile(seeds)
    for level, pieces in seeds.ir.items():
        seeds.ir[level] = pieces + _generic(pieces)
    seeds.configs = {
        "deepseek.json": DEEPSEEK,
        "mixtral.json": MIXTRAL,
        "mindformers.yaml": MINDFORMERS,
        "pynative.yml": PYNATIVE,
    }
    machines = [*MACHINE_DIR.glob("*.toml"), *(TEST / "filecheck").rglob("*.toml")]
    seeds.machines = {path.name: path.read_text() for path in sorted(machines)}
    seeds.mindir = {p.name: p.read_bytes() for p in sorted((TEST / "data").glob("*.mindir"))}
    for rank, routing in enumerate(
        generate_routing(RoutingSpec("uniform"), LAYER, [LAYER.tokens] * LAYER.ranks, 0)
    ):
        seeds.routing[f"ids.{rank}"] = routing.ids
        seeds.routing[f"gate.{rank}"] = routing.gates
    return seeds


def _compile(seeds: Seeds) -> None:
    module = layer_module(LAYER)
    compiled = compile_module(make_context(), module, LowerMoePass(), backward=DeriveBackwardPass())
    with tempfile.TemporaryDirectory() as directory:
        write_compiled(compiled, Path(directory))
        for path in sorted(Path(directory).rglob("*")):
            if path.is_file():
                seeds.compiled[str(path.relative_to(directory))] = path.read_bytes()
    seeds.graph = module_text(module)
    seeds.ir["moe"].append(("small:graph", seeds.graph))
    for level, lowered in compiled.modules.items():
        seeds.ir[level].append((f"small:{level}", module_text(lowered)))


def _generic(pieces: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The pieces that parse, in generic syntax."""
    from xdsl.printer import Printer

    result: list[tuple[str, str]] = []
    for name, text in pieces:
        try:
            module = parse_module(make_context(), text.encode(), name)
        except InputError:
            continue
        stream = io.StringIO()
        Printer(stream, print_generic_format=True).print_op(module)
        result.append((f"{name}:generic", stream.getvalue() + "\n"))
    return result


def build_kernel(seeds: Seeds) -> None:
    """Builds the generated code of the compiled layer, so that cases do not wait for it."""
    with tempfile.TemporaryDirectory() as name:
        for file, data in seeds.compiled.items():
            path = Path(name) / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        compiled, _ = read_compiled(make_context(), Path(name))
    for kernel in compiled.kernels.values():
        build_program(kernel.program, kernel.source)
