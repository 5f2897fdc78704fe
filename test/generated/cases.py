"""A generated case as plain data: graph, sizes, routing, lowering and seeds; and its text."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from generated.graphs import Graph, Step, value_widths, weight_shapes
from hpmoe_ir.dialects.moe import RouteType
from hpmoe_ir.dtypes import Dtype, check_dtype, round_to
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting, generate_routing, parse_routing
from hpmoe_ir.machines.machine import MACHINE_DIR
from hpmoe_ir.options.text import Spec
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass


@dataclass(frozen=True)
class Launch:
    """One launch: tokens of each rank, and how they are routed."""

    tokens: tuple[int, ...]
    routing: str
    """As `hpmoe run` takes it, or `ranks:0,2`: all tokens to experts of these ranks if they are
    enough."""
    seed: int
    scale: float = 1.0
    """Of the tokens' values."""


@dataclass(frozen=True)
class Backward:
    """Options of `derive-backward`."""

    recompute: tuple[str, ...] = ()
    accumulate: bool = False
    weight_gradients: str = "f32"


@dataclass(frozen=True)
class Lowering:
    """Options of `lower-moe` that are not at their defaults, and the machine's matrix cores."""

    cores: int
    options: tuple[tuple[str, int | str | bool], ...] = ()

    def build(self) -> LowerMoePass:
        """The pass."""
        options = {name: (value,) for name, value in self.options}
        spec = Spec(LowerMoePass.name, {"machine": (machine_file(self.cores),), **options})
        return LowerMoePass.of_spec(spec)


@dataclass(frozen=True)
class Case:
    """All that a run needs: the same case gives the same bytes."""

    graph: Graph
    ranks: int
    local: int
    """Experts of one rank."""
    top: int
    capacity: int | None
    """Most rows that a rank receives; None: as many as can arrive."""
    dtype: str
    launches: tuple[Launch, ...]
    lowering: Lowering
    backward: Backward | None
    orders: tuple[int, ...]
    """Seeds of the order in which cores take turns."""

    @property
    def experts(self) -> int:
        """Experts of all ranks."""
        return self.ranks * self.local

    @property
    def most_tokens(self) -> int:
        """Most tokens that a rank brings, at least 1."""
        return max(1, *(t for launch in self.launches for t in launch.tokens))

    def route(self) -> RouteType:
        """The type of the route."""
        return RouteType(self.most_tokens, self.top, self.experts, self.ranks, self.capacity)

    def element(self) -> Dtype:
        """The element type of the rows."""
        return check_dtype(self.dtype)

    def derive(self) -> DeriveBackwardPass | None:
        """The pass that adds the gradients."""
        if self.backward is None:
            return None
        options: dict[str, Any] = asdict(self.backward)
        return DeriveBackwardPass(**options)

    def routings(self, launch: Launch) -> list[RankRouting]:
        """Ids and gates of each rank."""
        config = LayerConfig(
            "generated", 16, 16, self.experts, self.top, self.ranks, self.most_tokens
        )
        name, _, ranks = launch.routing.partition(":")
        if name != "ranks":
            return generate_routing(
                parse_routing(launch.routing), config, launch.tokens, launch.seed
            )
        routings = generate_routing(parse_routing("uniform"), config, launch.tokens, launch.seed)
        chosen = sorted({e for r in ranks.split(",") for e in self._experts_of(int(r))})
        if len(chosen) < self.top:
            return routings
        random = np.random.default_rng([launch.seed, 0x6E6F])
        return [
            RankRouting(
                np.array(
                    [random.permutation(chosen)[: self.top] for _ in range(len(r.ids))], np.int32
                ).reshape(len(r.ids), self.top),
                r.gates,
            )
            for r in routings
        ]

    def _experts_of(self, rank: int) -> range:
        first = rank % self.ranks * self.local
        return range(first, first + self.local)

    def values(self, launch: Launch) -> list[dict[str, Array]]:
        """The arguments of the forward function for each rank, rounded to the element type.

        Tokens are standard normal times `scale`; weights keep the size of what they multiply.
        """
        dtype = self.element()
        shapes = weight_shapes(self.graph)
        found: list[dict[str, Array]] = []
        for rank, routing in enumerate(self.routings(launch)):
            random = np.random.default_rng([launch.seed, rank])
            values: dict[str, Array] = {"ids": routing.ids, "gate": routing.gates}
            for i, width in enumerate(self.graph.widths):
                x = random.standard_normal((launch.tokens[rank], width), np.float32)
                values[f"x{i}"] = round_to(x * np.float32(launch.scale), dtype)
            for i, shape in enumerate(shapes):
                w = random.standard_normal((self.local, *shape), np.float32)
                values[f"w{i}"] = round_to(w * np.float32(max(shape) ** -0.5), dtype)
            found.append(values)
        return found

    def text(self) -> str:
        """The case as one line, which `case_of` reads."""
        return json.dumps(asdict(self), separators=(",", ":"))

    def summary(self) -> str:
        """What it is, for people."""
        steps = " ".join(
            f"{s.op}({','.join(map(str, s.operands))}{f';{s.number}' if s.number else ''})"
            for s in self.graph.steps
        )
        tokens = " | ".join(f"{','.join(map(str, x.tokens))} {x.routing}" for x in self.launches)
        return (
            f"{self.ranks} ranks, top {self.top} of {self.experts}, {self.dtype}, "
            f"capacity {self.capacity}, widths {value_widths(self.graph)}: {steps} -> "
            f"{self.graph.results}; tokens {tokens}; {self.lowering}; {self.backward}; "
            f"orders {self.orders}"
        )


def _launch(data: dict[str, Any]) -> Launch:
    return Launch(tuple(data["tokens"]), data["routing"], data["seed"], data["scale"])


def _backward(data: dict[str, Any]) -> Backward:
    return Backward(tuple(data["recompute"]), data["accumulate"], data["weight_gradients"])


def case_of(text: str) -> Case:
    """The case that `Case.text` wrote."""
    data: dict[str, Any] = json.loads(text)
    graph = data["graph"]
    steps = tuple(Step(s["op"], tuple(s["operands"]), s["number"]) for s in graph["steps"])
    lowering = data["lowering"]
    options = tuple((str(k), v) for k, v in lowering["options"])
    backward: dict[str, Any] | None = data["backward"]
    made: dict[str, Any] = {
        **data,
        "graph": Graph(tuple(graph["widths"]), steps, tuple(graph["results"])),
        "launches": tuple(_launch(x) for x in data["launches"]),
        "lowering": Lowering(lowering["cores"], options),
        "backward": backward and _backward(backward),
        "orders": tuple(data["orders"]),
    }
    return Case(**made)


@cache
def _machine_dir() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hpmoe-machines-")


@cache
def machine_file(cores: int) -> str:
    """A description of an A3 with fewer matrix cores, so that a run has fewer fibers."""
    if cores == 24:
        return "ascend-a3"
    text = (MACHINE_DIR / "ascend-a3.toml").read_text()
    aic = f'aic = {{ value = {cores}, unit = "cores", source = "the case" }}'
    fewer = re.sub(r"^aic = .*$", aic, text, count=1, flags=re.MULTILINE)
    path = Path(_machine_dir().name) / f"{cores}-cores.toml"
    # Processes that were forked from one share the folder, and read while another writes.
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as whole:
        whole.write(fewer)
    os.replace(whole.name, path)
    return str(path)
