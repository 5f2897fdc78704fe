"""The plan of a program: what is decided about each task, and what is refused, without C++."""

from __future__ import annotations

import pytest
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.dialects.access import RowSegment
from hpmoe_ir.dialects.tile import MemorySpace
from hpmoe_ir.driver.compiler import compile_module, compile_program
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.lowering import targets
from hpmoe_ir.lowering.ascendc import tasks
from hpmoe_ir.lowering.plan.credits import CreditSide
from hpmoe_ir.lowering.plan.elements import ElementType
from hpmoe_ir.lowering.plan.expressions import Binary, Coordinate, IntExpr, OwnRank, PeerRank
from hpmoe_ir.lowering.plan.family import FamilyPlan
from hpmoe_ir.lowering.plan.program import ProgramPlan, WaitTicks, plan_program
from hpmoe_ir.lowering.plan.sizes import Size, SizeTable
from hpmoe_ir.lowering.plan.tiles import (
    ArgumentAddress,
    BlockExtent,
    MatrixShape,
    PlannedAddress,
    RowRange,
    RowsExtent,
    WholeExtent,
)
from hpmoe_ir.lowering.program import LoweringError, lowered_program
from hpmoe_ir.lowering.targets import CodeTarget, KernelCode, code_target, register_code_target
from hpmoe_ir.lowering.task_table import read_task_table
from hpmoe_ir.passes.pipeline import LowerMoePass

LAYER = LayerConfig("small", hidden=64, width=32, experts=4, top_k=2, ranks=2, tokens=64)

PROGRAM = """
queue.program @layer ranks 3 machine "ascend-a3" counters at 4096 {{
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @w input : !tile.buffer<2x48x40xbf16>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 3 ranks, 20 rows>
  tile.buffer @h workspace at 512 : !tile.buffer<grouped 20 rows, 40xbf16>
  tile.buffer @recv window copies 2 at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @put (p, {e}) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent((rank + p) mod 3 * 2 + {e}), :]
    writes @recv on (rank + p) mod 3 [grouped({e}, rank of 3), :]
  tile.tasks @{matmul} (e, n) in (2, 3) on aic
    kernel "grouped_matmul" {{tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 48 : i64,
    transpose_rhs = 0 : i64}} using @route
    reads @recv[grouped(e, 0 of 1), :], @w[e, :, block(n by 16)]
    writes @h[grouped(e, 0 of 1), block(n by 16)]
  queue.event @put_done (2) count 3 line 0
  queue.signal @put (p, {e}) to @put_done ({e}) on (rank + p) mod 3
  queue.wait @{matmul} (e, n) for @put_done (e)
  queue.order aic {{
    [@{matmul}[0, 1, 2, 3, 4, 5]],
    [] times 23
  }}
  queue.order aiv {{
    [@put[0, 1, 2, 3, 4, 5]],
    [] times 47
  }}
}}
"""


def planned(matmul: str = "matmul", e: str = "e") -> ProgramPlan:
    """The plan of a program with a put and a product, whose names may be others."""
    text = PROGRAM.format(matmul=matmul, e=e)
    module = parse_module(make_context(), text.encode(), "program.mlir")
    return plan_program(lowered_program(module, "test"))


def layer_plan(lowering: LowerMoePass | None = None) -> ProgramPlan:
    """The plan of the forward direction of a layer."""
    module = layer_module(LAYER)
    (lowering or LowerMoePass()).apply(make_context(), module)
    return plan_program(lowered_program(module, "test"))


def family(plan: ProgramPlan, name: str) -> FamilyPlan:
    return next(f for f in plan.families if f.name == name)


def test_a_put_names_its_peer_and_its_rows():
    put = family(planned(), "put")
    assert isinstance(put.peer, Binary)
    (written,) = put.writes
    (rows,) = written.rows
    assert rows.name == "rows0"
    operands = Size("PutLocal", 2), PeerRank(), Coordinate("e")
    assert rows.rows == RowRange(RowSegment.DEST, operands, None)
    address = written.tile.address
    assert isinstance(address, PlannedAddress)
    assert address.space is MemorySpace.WINDOW
    assert address.peer == PeerRank()
    assert address.copy == Size("RecvCopy", 20 * 48)
    (read,) = put.stages[0].reads
    assert isinstance(read.rows[0].rows, RowRange)
    assert read.rows[0].rows.segment is RowSegment.SENT
    assert read.tile.address == ArgumentAddress("x")


def test_tiles_of_a_product():
    matmul = family(planned(), "matmul")
    recv, w = matmul.stages[0].reads
    assert recv.rows == (), "the rows are those that the written tile has defined"
    operands = matmul_group(matmul), Size("MatmulGroups", 1), Coordinate("e")
    assert matmul.writes[0].rows[0].rows == RowRange(RowSegment.GROUPED, operands, None)
    assert recv.tile.shape == MatrixShape(
        Size("RecvPitch", 48), RowsExtent("rows0"), WholeExtent(Size("RecvCols", 48))
    )
    (step,) = w.tile.steps
    assert (step.index, step.elements) == (Coordinate("e"), Size("WStep2", 48 * 40))
    assert w.tile.shape == MatrixShape(
        Size("WPitch", 40),
        WholeExtent(Size("WRows", 48)),
        BlockExtent(Coordinate("n"), Size("MatmulWColsBlock", 16), Size("WCols", 40)),
    )
    call = matmul.stages[0].call
    assert call is not None
    assert (call.element, call.options) == (ElementType.BF16, (16, 16, 48, 0))
    assert call.tiles == ("read0", "read1", "write0")


def matmul_group(matmul: FamilyPlan) -> IntExpr:
    rows = matmul.writes[0].rows[0].rows
    assert isinstance(rows, RowRange)
    assert rows.segment is RowSegment.GROUPED
    return rows.operands[0]


def test_a_task_without_rows_still_signals():
    put = family(planned(), "put")
    work, last = put.stages
    assert work.guard == ("rows0",)
    assert work.call is not None
    assert work.signals == ()
    assert last.guard == ()
    assert last.call is None
    (signal,) = last.signals
    assert signal.event.first == Size("PutDone", 0)
    assert signal.peer == PeerRank()


def test_a_credited_signal_needs_rows():
    plan = layer_plan()
    dispatch = family(plan, "dispatch")
    (only,) = dispatch.stages
    assert only.guard == ("rows0",)
    assert len(only.signals) == 1
    builder = family(plan, "build_route")
    assert builder.credits == tuple(c.function for c in plan.credits)
    credit = next(c for c in plan.credits if c.family == "dispatch")
    assert credit.side is CreditSide.RECEIVED
    assert credit.first.first == only.signals[0].event.first
    assert credit.first.index is None


def test_without_credits_every_put_signals():
    plan = layer_plan(LowerMoePass(credit=False))
    assert plan.credits == ()
    dispatch = family(plan, "dispatch")
    assert [bool(stage.guard) for stage in dispatch.stages] == [True, False]


def test_chunks_without_rows_are_counted_in_one_step():
    plan = layer_plan(LowerMoePass(put_rows=16))
    credit = next(c for c in plan.credits if c.family == "dispatch")
    assert credit.chunks is not None
    assert credit.chunks.index is None
    assert [loop.coordinate for loop in credit.outer] == ["e"]


def test_expressions_are_of_the_rank_that_runs_them():
    put = family(planned(), "put")
    assert isinstance(put.peer, Binary)
    assert isinstance(put.peer.lhs, Binary)
    assert put.peer.lhs.lhs == OwnRank()
    assert put.peer.rhs == Size("PutConst1", 3)


def test_sizes_are_in_the_order_of_their_use():
    plan = planned()
    assert [size.name for size in plan.sizes[:5]] == [
        "PutE",
        "PutConst1",
        "Route",
        "RouteHigh",
        "RouteExperts",
    ]
    assert len({size.name for size in plan.sizes}) == len(plan.sizes)


def test_the_same_program_has_the_same_plan():
    one, other = planned(), planned()
    assert (one.families, one.sizes) == (other.families, other.sizes)


def test_waits_have_ticks_only_where_they_are_set():
    assert planned().waits is None
    module = parse_module(make_context(), PROGRAM.format(matmul="m", e="e").encode(), "p.mlir")
    program = lowered_program(module, "test")
    program.op.properties["poll_aiv"] = program.op.ranks
    assert plan_program(program).waits == WaitTicks(0, 0, 3)


def test_two_values_of_one_number_are_refused():
    table = SizeTable("target test: @p")
    assert table.size("A", 1) == table.size("A", 1)
    with pytest.raises(LoweringError, match=r"@p: two numbers .* the name A, 1 and 2"):
        table.size("A", 2)
    with pytest.raises(LoweringError, match=r"expected B below 2\^32, found 4294967296"):
        table.size("B", 1 << 32)


@pytest.mark.parametrize(
    ("matmul", "e", "message"),
    [
        ("Put", "e", "the generated code has a 'Put' of its own"),
        ("arguments", "e", "the generated code has a 'Arguments' of its own"),
        ("matmul", "int", "expected an identifier that is no keyword, found 'int'"),
        ("matmul", "peer", "the generated code has a 'peer' of its own"),
        ("matmul", "rows0", "the generated code has a 'rows0' of its own"),
    ],
)
def test_names_that_code_cannot_have_are_refused(matmul: str, e: str, message: str):
    with pytest.raises(DiagnosticException, match=f"target test: .*{message}"):
        planned(matmul, e)


def test_code_is_printed_once_a_compilation(monkeypatch: pytest.MonkeyPatch):
    printed: list[str] = []
    right = tasks.family_function

    def counted(plan: FamilyPlan) -> str:
        printed.append(plan.name)
        return right(plan)

    monkeypatch.setattr("hpmoe_ir.lowering.ascendc.source.family_function", counted)
    kernel = compile_module(make_context(), layer_module(LAYER), LowerMoePass()).forward
    assert printed == [f.name for f in kernel.plan.families]


class Outline(CodeTarget):
    """A target that prints the names of families and their waits."""

    name = "outline"
    source_file = "outline.txt"

    def source(self, plan: ProgramPlan) -> str:
        return "".join(f"{f.name} {len(f.waits)}\n" for f in plan.families)

    def project(self, plan: ProgramPlan, code: KernelCode) -> dict[str, str | bytes]:
        return {"README": f"outline of @{plan.name}\n"}


@pytest.fixture
def outline(monkeypatch: pytest.MonkeyPatch) -> CodeTarget:
    monkeypatch.setattr(targets, "CODE_TARGETS", dict(targets.CODE_TARGETS))
    register_code_target(Outline())
    return code_target("outline")


def test_another_target_prints_the_same_plan(outline: CodeTarget):
    module = parse_module(make_context(), PROGRAM.format(matmul="m", e="e").encode(), "p.mlir")
    kernel = compile_program(module, outline)
    files = outline.files(kernel.plan, kernel.code)
    assert list(files) == ["outline.txt", "table.bin", "README"]
    assert files["outline.txt"] == b"put 0\nm 1\n"
    assert read_task_table(files["table.bin"]).header["tasks"] == 12


def test_targets_are_known_by_name(outline: CodeTarget):
    with pytest.raises(ValueError, match="there is a code target 'outline' already"):
        register_code_target(Outline())
    with pytest.raises(LoweringError, match="one of ascendc, outline; found 'cuda'"):
        code_target("cuda")
