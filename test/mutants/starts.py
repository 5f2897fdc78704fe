"""The right programs that mutants are made from: small layers, both directions, three policies."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.driver.compiler import CompiledKernel, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import LayerValues, make_values
from hpmoe_ir.machines.machine import MACHINE_DIR
from hpmoe_ir.output import write_file
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.published import Published
from hpmoe_ir.run.directions import backward_arguments, forward_arguments
from hpmoe_ir.run.execution import RankInputs, Raw, build_program, run_program
from hpmoe_ir.run.levels import rank_inputs, run_level
from hpmoe_ir.run.signature import signatures
from hpmoe_ir.runtime.cpu_build import cache_dir

LAUNCHES = 3

RANKS = (1, 2, 4, 8)
DIRECTIONS = ("forward", "backward")

SMALL_TILES: dict[str, object] = {"tile_m": 16, "tile_n": 16, "tile_k": 16}

OPTIONS: dict[str, dict[str, object]] = {
    "operator-order": {
        "policy": OperatorOrder(), "put_chunks": 2, "token_chunks": 2, "source_groups": 2,
        **SMALL_TILES,
    },
    "depth-first": {
        "policy": DepthFirst(), "token_chunks": 3, "task_cols": 16, "source_groups": 2,
        **SMALL_TILES,
    },
    "published": {
        "policy": Published(), "vector_cores": "one", "credit": False,
        "granularity": "expert", "put_rows": 16,
        "vector_rows": 16, "matrix_shares": 2, "source_groups": 1, **SMALL_TILES,
    },
    "wide": {},
    "deep": {},
    "many": {"token_chunks": 1},
    "long": {"gradient_cols": 400, "tile_m": 256, "tile_n": 128, "tile_k": 64},
}  # fmt: skip
"""Options of `lower-moe`, by a name for the whole: three policies on small tiles with several tasks
a product; and layers so wide, or with so many tokens, that each kernel has several turns, `long`
with weight gradients over so many rows that these go in sections."""

SIZES = {
    "wide": (32, 2048, 24), "deep": (8192, 16, 24), "many": (32, 16, 4200), "long": (400, 16, 1100),
}  # fmt: skip
"""Hidden size, expert width and tokens of a rank, where they are not small."""


@cache
def small_machine() -> Path:
    """A chip with two matrix and four vector cores: queues are long, and every order counts."""
    text = (MACHINE_DIR / "ascend-a3.toml").read_text()
    text = re.sub(r'^name = ".*"', 'name = "small"', text, flags=re.MULTILINE)
    text = re.sub(r"^(aic = .*?value = |aic = )24", r"\g<1>2", text, flags=re.MULTILINE)
    text = re.sub(r"low = 20, high = 24, ", "", text)
    path = cache_dir() / "machines" / "small.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text() != text:
        write_file(path, text.encode())
    return path


@dataclass(frozen=True)
class Start:
    """One right program."""

    direction: str
    ranks: int
    policy: str

    @property
    def name(self) -> str:
        """`forward/4/depth-first`, as the command takes it."""
        return f"{self.direction}/{self.ranks}/{self.policy}"

    @property
    def config(self) -> LayerConfig:
        """Two experts a rank, so that each expert gets rows from each rank."""
        hidden, width, tokens = SIZES.get(self.policy, (32, 16, 24))
        return preset_layer("deepseek-v3-tiny").with_sizes(
            ranks=self.ranks,
            experts=2 * self.ranks,
            top_k=2,
            hidden=hidden,
            width=width,
            tokens=tokens,
        )

    @property
    def lowering(self) -> LowerMoePass:
        """How the layer is compiled."""
        options = dict(OPTIONS[self.policy])
        if self.ranks == 1 and "source_groups" in options:
            options["source_groups"] = 1
        return LowerMoePass(machine=str(small_machine()), **options)  # pyright: ignore[reportArgumentType]

    @property
    def launches(self) -> int:
        """Launches of a run: what has two copies is used again in the third."""
        return 1 if self.policy in SIZES else LAUNCHES


POLICIES = tuple(name for name in OPTIONS if name not in SIZES)
STARTS = tuple(Start(d, r, p) for d in DIRECTIONS for r in RANKS for p in POLICIES)
WIDE_STARTS = (
    Start("forward", 2, "wide"),
    Start("forward", 2, "deep"),
    Start("forward", 2, "many"),
    Start("backward", 2, "wide"),
    Start("backward", 2, "deep"),
    Start("backward", 2, "long"),
)
HEADER_STARTS = (*(Start(d, 2, "depth-first") for d in DIRECTIONS), *WIDE_STARTS)
"""What changed headers are run with, the quickest first."""


@dataclass(frozen=True)
class Program:
    """A right program, what it is run on, and what it computes."""

    start: Start
    module: ModuleOp
    kernel: CompiledKernel
    inputs: list[list[RankInputs]]
    """By launch and rank."""
    expected: list[list[dict[str, Raw]]] = field(repr=False)
    """Raw outputs by launch and rank: the same bits in every order of the cores."""

    @property
    def name(self) -> str:
        """Name of the program in its module."""
        return self.kernel.program.name


@cache
def compile_start(start: Start) -> Program:
    """Compiles and runs a right program."""
    compiled = compile_module(
        make_context(), layer_module(start.config), start.lowering, backward=DeriveBackwardPass()
    )
    values = [_launch_values(start.config, n) for n in range(start.launches)]
    known = signatures(compiled.modules["moe"])
    forward = [forward_arguments(known[FUNCTION], v) for v in values]
    name = FUNCTION
    given = forward
    if start.direction == "backward":
        name = f"{FUNCTION}_backward"
        kernel = compiled.kernels[FUNCTION]
        executable = build_program(kernel.program, kernel.source)
        results = run_level("code", compiled, FUNCTION, forward, 0, executable)
        given = [
            backward_arguments(known[name], known[FUNCTION], v, r)
            for v, r in zip(values, results, strict=True)
        ]
    kernel = compiled.kernels[name]
    inputs = [[rank_inputs(kernel, by_name) for by_name in launch] for launch in given]
    module = ModuleOp([kernel.program.op.clone()])
    executable = build_program(kernel.program, kernel.source)
    expected = run_program(kernel.program, executable, kernel.table, inputs)
    return Program(start, module, kernel, inputs, expected)


def _launch_values(config: LayerConfig, launch: int) -> LayerValues:
    """Uneven tokens, any expert; in the third launch one rank gets all rows it has room for."""
    full = launch == 2
    tokens = [config.tokens - (0 if full else 5 * (r % 2)) for r in range(config.ranks)]
    routing = parse_routing("one-expert" if full else "uniform")
    return make_values(config, tokens, routing, 7, launch + 1)


def program_op(module: ModuleOp) -> ProgramOp:
    """The only queue program of a module."""
    return next(op for op in module.ops if isinstance(op, ProgramOp))
