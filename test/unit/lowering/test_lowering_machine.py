"""Programs that a machine cannot run are refused before any code, whatever made them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

from hpmoe_ir.diagnostics import RefusedError
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.lowering.plan.machine import check_machine
from hpmoe_ir.lowering.program import LoweredProgram, lowered_program
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.pipeline import LowerMoePass

LAYER = LayerConfig("small", hidden=64, width=32, experts=256, top_k=2, ranks=4, tokens=16)
A3 = load_machine("ascend-a3")


@pytest.fixture(scope="module")
def program() -> LoweredProgram:
    """A queue program of 4 ranks that fits ascend-a3."""
    module = layer_module(LAYER)
    LowerMoePass().apply(make_context(), module)
    return lowered_program(module, "ascendc")


def test_a_program_that_fits(program: LoweredProgram):
    assert check_machine(program) is None
    smaller = replace(A3, l1_bytes=1 << 18, ub_bytes=1 << 16, direct_ranks=4, hbm_bytes=1)
    assert check_machine(replace(program, machine=smaller)) is None


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (
            {"arch": "dav-3510"},
            "machine ascend-a3: arch: expected dav-2201, for which the device code is written, "
            "found dav-3510",
        ),
        (
            {"aiv_per_aic": 1},
            "machine ascend-a3: [cores] aiv_per_aic: expected 2, for which the device code is "
            "written, found 1",
        ),
        (
            {"counter_line": 128},
            "machine ascend-a3: [memory] counter_line: expected 64, for which the device code is "
            "written, found 128",
        ),
        (
            {"direct_ranks": 2},
            "@route: expected at most 2 ranks, as many as write each other's memory directly on "
            "ascend-a3, found 4",
        ),
        (
            {"ub_bytes": 9216 + 11264},
            "",
        ),
        (
            {"ub_bytes": 9216 + 11232},
            "@count, kernel 'count_tokens': needs 11264 bytes of UB, ascend-a3 has 11232",
        ),
        (
            {"l0a_bytes": 32767},
            "@matmul, kernel 'grouped_matmul': needs 32768 bytes of L0A, ascend-a3 has 32767",
        ),
        (
            {"l0c_bytes": 1 << 16},
            "@matmul, kernel 'grouped_matmul': needs 131072 bytes of L0C, ascend-a3 has 65536",
        ),
        (
            {"l1_bytes": 98304},
            "@matmul, kernel 'grouped_matmul': needs 98304 bytes of L1, ascend-a3 has 96256",
        ),
        (
            {"event_ids": 1},
            "@count, kernel 'count_tokens': needs 2 flag ids of a pair of pipes, ascend-a3 has 1",
        ),
    ],
    ids=str,
)
def test_a_machine_that_cannot_run_it(
    program: LoweredProgram, numbers: dict[str, int | str], message: str
):
    other = replace(program, machine=replace(A3, **numbers))
    if not message:
        check_machine(other)
        return
    with pytest.raises(RefusedError) as caught:
        check_machine(other)
    assert str(caught.value) == f"target ascendc: {message}"


def test_more_experts_than_the_lists_hold(program: LoweredProgram):
    """256 experts fit the shortest lists, 257 the next."""
    module = layer_module(replace(LAYER, experts=260))
    LowerMoePass().apply(make_context(), module)
    machine = replace(A3, ub_bytes=9216 + 11264)
    with pytest.raises(RefusedError, match=r"expected at most 256 experts, .* found 260"):
        check_machine(replace(lowered_program(module, "ascendc"), machine=machine))


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("tile_m", 24, "option 'tile-m': expected a positive multiple of 16, found 24"),
        ("tile_k", 0, "option 'tile-k': expected a positive multiple of 16, found 0"),
        ("tile_n", 512, "needs 131072 bytes of L0B, ascend-a3 has 65536"),
    ],
)
def test_tiles_of_a_file_that_are_none(option: str, value: int, message: str):
    module = layer_module(LAYER)
    LowerMoePass().apply(make_context(), module)
    program = lowered_program(module, "ascendc")
    family = next(f for f in program.families.values() if "tile_m" in f.int_options)
    assert family.options is not None
    family.options = family.options.__class__(
        {**family.options.data, option: IntegerAttr(value, i64)}
    )
    with pytest.raises(RefusedError) as caught:
        check_machine(program)
    assert str(caught.value).endswith(message)
