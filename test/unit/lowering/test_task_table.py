"""The task table: what is written is read back, and bytes that are no table are refused."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.driver.source import make_context, parse_module
from hpmoe_ir.lowering.ascendc.source import device_source
from hpmoe_ir.lowering.plan.program import ProgramPlan, plan_program
from hpmoe_ir.lowering.program import LoweringError, lowered_program
from hpmoe_ir.lowering.task_table import HEADER, TableError, read_task_table, task_table
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.operator_order import OperatorOrder

LAYER = """
func.func @layer(%x: {x}, %ids: {ids}, %gate: {gate}, %w13: {w13}, %w2: {w2}) -> {x} {{
  %route = moe.route %ids : {ids} -> {route}
  %recv = moe.dispatch %x by %route : {x}, {route} -> {rows}
  %h = moe.grouped_matmul %recv, %w13 by %route : {rows}, {w13}, {route} -> {h}
  %a = moe.swiglu %h : {h} -> {a}
  %y = moe.grouped_matmul %a, %w2 by %route : {a}, {w2}, {route} -> {rows}
  %out = moe.combine %y, %gate by %route : {rows}, {gate}, {route} -> {x}
  func.return %out : {x}
}}
"""


def lowered(
    ranks: int = 3, local: int = 2, tokens: int = 40, lowering: LowerMoePass | None = None
) -> ProgramPlan:
    """The plan of the layer with hidden width 48 and expert width 32."""
    experts, rows = ranks * local, ranks * tokens * min(2, local)
    spread = f"{experts} experts over {ranks} ranks"
    weights = f"#moe.experts<{experts} over {ranks} ranks>"
    grouped, own = f"#moe.grouped<{rows} rows>", f"#moe.tokens<{tokens} rows>"
    text = LAYER.format(
        x=f"tensor<?x48xbf16, {own}>",
        ids=f"tensor<?x2xi32, {own}>",
        gate=f"tensor<?x2xf32, {own}>",
        w13=f"tensor<{local}x48x64xbf16, {weights}>",
        w2=f"tensor<{local}x32x48xbf16, {weights}>",
        rows=f"tensor<?x48xbf16, {grouped}>",
        h=f"tensor<?x64xbf16, {grouped}>",
        a=f"tensor<?x32xbf16, {grouped}>",
        route=f"!moe.route<{tokens} tokens, top 2, {spread}, {rows} rows>",
    )
    context = make_context()
    module = parse_module(context, text.encode(), "layer.mlir")
    (lowering or LowerMoePass()).apply(context, module)
    return plan_program(lowered_program(module, "task-table"))


FINE = LowerMoePass(source_groups=2, row_chunks=2, task_cols=16, policy=OperatorOrder())


@pytest.mark.parametrize("lowering", [LowerMoePass(), FINE])
def test_what_is_written_is_read_back(lowering: LowerMoePass):
    plan = lowered(lowering=lowering)
    program, table = plan.program, read_task_table(task_table(plan))
    header = table.header
    assert header["ranks"] == 3
    assert header["blocks"] == program.machine.aic_cores
    assert header["families"] == len(program.families)
    assert header["tasks"] == sum(f.task_count for f in program.families.values())
    assert 64 * header["counters"] == program.counters
    thresholds = np.concatenate(
        [np.tile(e.thresholds, e.copy_count) for e in program.events.values()]
    )
    np.testing.assert_array_equal(table.thresholds, thresholds)
    names = list(program.families)
    for core, order in program.orders.items():
        first, slots = order.first_slots, order.slot_values
        for number, queue in enumerate(table.queues[core]):
            own = slots[first[number] : first[number + 1]]
            assert [(names[s >> POINT_BITS], s & POINT_MASK) for s in queue.tolist()] == [
                (order.family_names[s >> POINT_BITS], s & POINT_MASK) for s in own.tolist()
            ]


def test_every_task_is_in_the_table_once():
    plan = lowered(lowering=FINE)
    table = read_task_table(task_table(plan))
    found = np.concatenate([q for queues in table.queues.values() for q in queues])
    expected = np.concatenate(
        [
            (i << POINT_BITS) + np.arange(f.task_count)
            for i, f in enumerate(plan.program.families.values())
        ]
    )
    np.testing.assert_array_equal(np.sort(found), expected)


def test_counters_may_be_beyond_4_gib():
    plan = lowered(ranks=8, tokens=4_000_000)
    assert plan.program.counters > 1 << 32
    assert 64 * read_task_table(task_table(plan)).header["counters"] == plan.program.counters


def test_lines_without_a_counter_are_in_the_table():
    """Thresholds are looked up by line, so a table as long as there are counters would be short."""
    program = lowered().program
    events = list(program.events.values())
    before = program.counter_count
    events[-1].line = IntegerAttr(before + 5, i64)
    dropped = events[2]
    dropped.line = IntegerAttr(before + 40, i64)
    table = read_task_table(task_table(plan_program(program)))
    assert len(table.thresholds) == before + 40 + dropped.line_count
    assert program.window_bytes >= program.counters + 64 * len(table.thresholds)
    for event in events:
        for copy in range(event.copy_count):
            first = event.first_line(copy)
            own = table.thresholds[first : first + event.event_count]
            np.testing.assert_array_equal(own, event.thresholds)
    assert table.thresholds.sum() == sum(
        int(e.thresholds.sum()) * e.copy_count for e in program.events.values()
    )


def test_counters_begin_at_a_line():
    program = lowered().program
    program.op.counters = IntegerAttr(program.counters + 8, i64)
    expected = f"expected counters at a multiple of 64 bytes, found {program.counters}"
    with pytest.raises(LoweringError, match=expected):
        plan_program(program)


def test_a_task_takes_few_bytes():
    """4 bytes for its slot, and its share of thresholds; the published system takes 576."""
    small, large = lowered(tokens=64), lowered(8, 16, 64, LowerMoePass(task_cols=16))
    sizes = [len(task_table(p)) for p in (small, large)]
    tasks = [p.task_count for p in (small, large)]
    assert tasks[1] > 1000
    assert (sizes[1] - sizes[0]) / (tasks[1] - tasks[0]) < 8


def test_the_same_layer_has_the_same_bytes():
    assert task_table(lowered(lowering=FINE)) == task_table(lowered(lowering=FINE))
    assert device_source(lowered(lowering=FINE)) == device_source(lowered(lowering=FINE))


def test_layers_of_one_structure_share_their_source():
    """Shapes are in the table, not in the source."""
    one, other = lowered(tokens=40), lowered(local=4, tokens=56)
    assert device_source(one) == device_source(other)
    assert task_table(one) != task_table(other)


def change_word(word: int, value: int, *, checksum: bool = True) -> Callable[[bytes], bytes]:
    """Puts another value into a word of a table, with the right checksum unless not wanted."""

    def change(data: bytes) -> bytes:
        words = np.frombuffer(data, dtype="<u4").copy()
        words[word] = value
        if checksum:
            start = len(HEADER)
            words[HEADER.index("checksum")] = zlib.crc32(words[start:].tobytes())
        return words.tobytes()

    return change


TABLE = task_table(lowered())
HEAD = read_task_table(TABLE).header
AIC_WORKERS = HEAD["blocks"]

BROKEN: list[tuple[Callable[[bytes], bytes], str]] = [
    (lambda data: data[:40], "a task table has a header of 64 bytes, found 40"),
    (lambda data: data[:-1], f"a task table has a header of 64 bytes, found {len(TABLE) - 1}"),
    (lambda data: data[:-4], f"bytes: expected {len(TABLE) - 4:#x}, found {len(TABLE):#x}"),
    (change_word(0, 0x1234), "magic: expected 0x544d5048, found 0x1234"),
    (change_word(1, 7), "version: expected 0x1, found 0x7"),
    (
        change_word(HEAD["thresholds"] // 4, 77, checksum=False),
        "checksum: expected {actual:#x}, found {stored:#x}",
    ),
    (
        change_word(HEADER.index("sizes"), 68),
        f"sizes: {HEAD['size_count']} words at byte 68 are not in the table",
    ),
    (
        change_word(HEADER.index("size_count"), 1 << 20),
        f"sizes: {1 << 20} words at byte {HEAD['sizes']} are not in the table",
    ),
    (
        change_word(HEADER.index("events"), len(TABLE)),
        f"thresholds: {len(TABLE)} words at byte {HEAD['thresholds']} are not in the table",
    ),
    (
        change_word(HEADER.index("aiv_queues"), len(TABLE)),
        f"aiv_queues: 49 words at byte {len(TABLE)} are not in the table",
    ),
    (
        change_word(HEAD["aic_queues"] // 4, 1),
        "aic_queues: the first slots of the workers do not ascend",
    ),
    (
        change_word(HEAD["aiv_queues"] // 4 + 1, 1 << 30),
        "aiv_queues: the first slots of the workers do not ascend",
    ),
    (
        change_word(HEAD["aic_queues"] // 4 + AIC_WORKERS + 1, 200 << POINT_BITS),
        f"aic_queues: expected tasks of families 0 to {HEAD['families'] - 1}, found one of family "
        "200",
    ),
    (
        change_word(HEADER.index("tasks"), HEAD["tasks"] + 1),
        f"tasks: expected {HEAD['tasks'] + 1} in all queues, found {HEAD['tasks']}",
    ),
]


@pytest.mark.parametrize(("change", "message"), BROKEN)
def test_broken_tables_are_refused(change: Callable[[bytes], bytes], message: str):
    data = change(TABLE)
    with pytest.raises(TableError) as error:
        read_task_table(data)
    actual = zlib.crc32(data[64:])
    assert str(error.value) == message.format(actual=actual, stored=HEAD["checksum"])
