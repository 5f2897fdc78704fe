"""What fits a machine, as Python and the device headers say it."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hpmoe_ir.kernels.device import LIST_CUTS, UB_LISTS, UB_REST
from hpmoe_ir.kernels.kernel import vector_local
from hpmoe_ir.kernels.machine_fit import ListLimits, layer_misfit, list_limits
from hpmoe_ir.lowering.ascendc.source import memory_definitions
from hpmoe_ir.machines.machine import Machine, load_machine
from hpmoe_ir.runtime.cpu_build import find_compiler

A3 = load_machine("ascend-a3")
DEVICE = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"

USES = """\
#include "hpmoe/build_route.h"
#include "hpmoe/credit.h"
#include "hpmoe/exchange_counts.h"
#include "hpmoe/gate_gradient.h"
#include "hpmoe/gather_scaled_rows.h"
#include "hpmoe/place_tokens.h"
#include "hpmoe/sum_copies.h"
#include "hpmoe/swiglu_grad.h"
using namespace hpmoe;
template class hpmoe::GateGradientTask<half>;
template class hpmoe::GatherScaledTask<half>;
template class hpmoe::CopySumTask<half, true>;
template class hpmoe::SwiGluGradTask<half>;
"""


def with_ub(usable: int) -> Machine:
    """An A3 of whose UB kernels may use so many bytes."""
    return replace(A3, name="other", ub_bytes=usable + A3.ub_reserved)


def errors(machine: Machine, limits: ListLimits, folder: Path) -> str:
    """What the compiler says against these limits on a machine, for all kernels with lists."""
    source = folder / "uses.cpp"
    expected = [
        f"static_assert({name} == {value});"
        for name, value in (
            ("kMaxExperts", limits.experts),
            ("kMaxCopies", limits.copies),
            ("kMaxCredits", limits.credits),
        )
    ]
    source.write_text("\n".join([memory_definitions(machine), USES, *expected]) + "\n")
    include = [f"-I{DEVICE}", f"-I{DEVICE.parent / 'cpu' / 'include'}"]
    command = [*find_compiler(), "-std=c++17", "-fsyntax-only", *include, str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("cut", [1, 4, LIST_CUTS[-1]])
def test_lists_that_just_fit(cut: int, tmp_path: Path):
    machine = with_ub(UB_LISTS // cut + UB_REST)
    limits = list_limits(machine)
    assert limits == ListLimits(4096 // cut, 1024 // cut, 4096 // cut)
    assert errors(machine, limits, tmp_path) == ""
    smaller = with_ub(machine.ub_usable - 32)
    if cut == LIST_CUTS[-1]:
        assert vector_local({}).exceeds(smaller)
        assert "UB holds the lists of kernels" in errors(smaller, limits, tmp_path)
    else:
        assert list_limits(smaller) == ListLimits(2048 // cut, 512 // cut, 2048 // cut)


def test_other_limits_than_those_of_the_headers_are_noticed(tmp_path: Path):
    limits = list_limits(A3)
    assert "static assertion failed" in errors(A3, replace(limits, copies=1023), tmp_path)


@pytest.mark.parametrize(
    ("machine", "ranks", "experts", "copies", "message"),
    [
        (A3, 64, 4096, 1024, ""),
        (
            A3,
            2,
            4098,
            2,
            "expected at most 4096 experts, whose lists the 187392 bytes of UB of ascend-a3 hold, "
            "found 4098",
        ),
        (
            with_ub(UB_LISTS // 2 + UB_REST),
            2,
            2048,
            513,
            "expected at most 512 experts per token, whose lists the 86528 bytes of UB of other "
            "hold, found 513",
        ),
        (
            load_machine("ascend-a2"),
            64,
            64,
            2,
            "expected at most 8 ranks, as many as write each other's memory directly on "
            "ascend-a2, found 64",
        ),
        (load_machine("ascend-a2"), 8, 64, 2, ""),
        (replace(A3, direct_ranks=None), 5000, 4096, 2, ""),
    ],
)
def test_layers_that_do_not_fit(
    machine: Machine, ranks: int, experts: int, copies: int, message: str
):
    assert layer_misfit(machine, ranks, experts, copies) == message
