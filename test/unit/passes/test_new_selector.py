"""A row selector that no part of the compiler knows: one class in `ROW_SELECTORS` is enough.

`own(e of R)` are the rows for local expert e that come from the rank itself, of R ranks. They can
also be written `grouped(e, rank of R)`, so all passes must do the same with both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir.affine import AffineExpr
from xdsl.parser import AttrParser

from hpmoe_ir.dialects import queue
from hpmoe_ir.dialects.access import ROW_SELECTORS, AxisRange, Chunk, GroupedRows, RowKind
from hpmoe_ir.dialects.access.rows import IndexValues, RowCounts, RowQuery, RowSelector
from hpmoe_ir.dialects.access.selector import WHOLE_SEGMENT, parse_count
from hpmoe_ir.dialects.index import RANK, format_index, parse_index
from hpmoe_ir.dialects.placement import RouteType
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.dtypes import Float64Array, round_to
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.lowering.ascendc.source import device_source
from hpmoe_ir.lowering.plan.program import plan_program
from hpmoe_ir.lowering.program import lowered_program
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.arrival import Arrival
from hpmoe_ir.passes.policies.list_order import ListOrder
from hpmoe_ir.passes.policies.overlap import Overlap

RANKS, LOCAL, TOKENS, HIDDEN, WIDTH = 2, 3, 8, 32, 16


@dataclass(frozen=True)
class OwnRows(RowSelector):
    """`own(e of R, chunk c of C by A)` - rows of local expert e from the rank itself."""

    keyword = "own"
    kind = RowKind.GROUPED
    put_rule = "a put writes the rows of its own rank"

    expert: AffineExpr
    ranks: int
    chunk: Chunk = WHOLE_SEGMENT

    def text(self, names: Sequence[str]) -> str:
        return f"own({format_index(self.expert, names)} of {self.ranks}{self.chunk.text(names)})"

    @classmethod
    def parse(cls, parser: AttrParser, names: Sequence[str]) -> OwnRows:
        expert = parse_index(parser, names)
        parser.parse_keyword("of")
        return cls(expert, parse_count(parser), Chunk.parse(parser, names))

    @property
    def _grouped(self) -> GroupedRows:
        return GroupedRows(self.expert, RANK, self.ranks, self.chunk)

    def axes(self, dim: int, extent: int, ranks: int, experts: int) -> tuple[AxisRange, ...]:
        return self._grouped.axes(dim, extent, ranks, experts)

    def query(self, peer: AffineExpr | None) -> RowQuery:
        return self._grouped.query(peer)

    def total_rows(self, counts: RowCounts, extents: Sequence[int]) -> int:
        return self._grouped.total_rows(counts, extents)

    def balanced_rows(self, route: RouteType, at: IndexValues) -> Float64Array:
        return self._grouped.balanced_rows(route, at)

    def sender(self, ranks: int, local_experts: int) -> AffineExpr | None:
        return RANK if self.ranks == ranks else None

    @property
    def local_expert(self) -> AffineExpr | None:
        return self.expert


@pytest.fixture
def own_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ROW_SELECTORS, OwnRows.keyword, OwnRows)


LOWERINGS = [
    LowerMoePass(),
    LowerMoePass(put_chunks=2, source_groups=2, granularity="expert", policy=Overlap()),
    LowerMoePass(policy=Arrival(), source_groups=2),
    LowerMoePass(policy=ListOrder()),
]


def renamed(text: str) -> str:
    """The text of a program with `own` in place of `grouped` where that means the same."""
    return text.replace(f"grouped(e, rank of {RANKS}", f"own(e of {RANKS}")


def stages(lowering: LowerMoePass, own: bool) -> list[ModuleOp]:
    """The module after each pass from the tile level on, puts being to `own` rows or not."""
    layer = LayerConfig("small", HIDDEN, WIDTH, RANKS * LOCAL, 2, RANKS, TOKENS)
    module, found = layer_module(layer), list[ModuleOp]()
    for module_pass in lowering.passes():
        module_pass.apply(make_context(), module)
        module.verify()
        if module_pass.name == "convert-comm-to-tile":
            text = renamed(str(module)) if own else str(module)
            module = parse_module(make_context(), text.encode(), "layer.mlir")
            module.verify()
            found.append(module)
        elif found:
            found.append(module.clone())
    return found


@pytest.mark.usefixtures("own_rows")
@pytest.mark.parametrize("lowering", LOWERINGS, ids=lambda p: p.policy)
def test_all_passes_do_the_same_with_a_new_selector(lowering: LowerMoePass):
    known, new = (stages(lowering, own) for own in (False, True))
    assert "own(e of 2" in str(new[0])
    assert "own(e of 2" not in str(known[0])
    assert len(known) == len(new) > 5
    for a, b in zip(known, new, strict=True):
        assert renamed(str(a)) == str(b)
    code = [device_source(plan_program(lowered_program(m[-1], "test"))) for m in (known, new)]
    assert code[0] == code[1]


@pytest.mark.usefixtures("own_rows")
def test_programs_run_with_a_new_selector():
    outputs: list[list[dict[str, Array]]] = []
    for own in (False, True):
        (program,) = stages(LowerMoePass(), own)[-1].ops
        assert isinstance(program, queue.ProgramOp)
        rng = np.random.default_rng(0)
        experts = RANKS * LOCAL
        inputs = [
            {
                "x": round_to(rng.standard_normal((t, HIDDEN)), "bf16"),
                "ids": np.argsort(rng.random((t, experts)), axis=1)[:, :2].astype(np.int32),
                "gate": rng.random((t, 2)).astype(np.float32),
                "w13": round_to(rng.standard_normal((LOCAL, HIDDEN, 2 * WIDTH)), "bf16"),
                "w2": round_to(rng.standard_normal((LOCAL, WIDTH, HIDDEN)), "bf16"),
            }
            for t in (TOKENS, TOKENS - 3)
        ]
        outputs.append(ProgramRun(program, 1).launch(inputs))
    for known, new in zip(outputs[0], outputs[1], strict=True):
        assert not np.isnan(known["out"][: TOKENS - 3]).any()
        np.testing.assert_array_equal(known["out"], new["out"])
