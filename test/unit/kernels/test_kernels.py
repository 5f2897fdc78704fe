"""The kernel library: finding, registering and replacing kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.kernels.kernel import (
    AscendCFunction,
    Cost,
    Element,
    Kernel,
    KernelError,
    TileOperand,
    TileSizes,
    Variant,
    time_by_cost,
)
from hpmoe_ir.kernels.registry import find_kernel, find_variant, register_kernel
from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import load_machine

DEVICE = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"

BUILT_IN = (
    "add_rows",
    "build_route",
    "cann_like_grouped_matmul",
    "cann_like_grouped_matmul_share",
    "cann_like_weight_gradient",
    "cann_like_weight_gradient_share",
    "copy_rows",
    "count_tokens",
    "exchange_counts",
    "gate_gradient",
    "gather_rows",
    "gather_scaled_rows",
    "grouped_matmul",
    "grouped_matmul_share",
    "place_tokens",
    "sum_copies",
    "swiglu",
    "swiglu_grad",
    "weight_gradient",
    "weight_gradient_share",
    "weighted_sum",
)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_kernels_are_declared_in_their_headers(name: str):
    kernel = find_kernel(name)
    assert kernel.name == name
    namespace, _, function = kernel.ascendc.name.partition("::")
    assert namespace == "hpmoe"
    assert f" {function}(" in (DEVICE / kernel.ascendc.header).read_text()


@pytest.mark.parametrize("base", ["grouped_matmul", "weight_gradient"])
@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("cann_like", [False, True])
def test_variants_of_the_matrix_kernels(base: str, shares: bool, cann_like: bool):
    variant = Variant(shares, cann_like)
    kernel, whole = find_variant(base, variant), find_variant(base, Variant(cann_like=cann_like))
    assert (kernel.base, kernel.variant, kernel.core) == (base, variant, CoreKind.AIC)
    assert kernel.scalars == (("first", "step") if shares else ())
    assert kernel.ascendc == whole.ascendc
    assert (kernel.ascendc == find_kernel(base).ascendc) == (not cann_like)


def test_variants_that_are_not_there():
    assert find_variant("swiglu", Variant()) is find_kernel("swiglu")
    with pytest.raises(KernelError, match=r"^kernel 'swiglu' has no variant Variant\(.*True, "):
        find_variant("swiglu", Variant(shares_product=True))
    with pytest.raises(KernelError, match=r"^unknown kernel 'grouped_matmul_shared', "):
        find_variant("grouped_matmul_shared", Variant())
    # A variant is no base.
    with pytest.raises(KernelError, match=r"^kernel 'grouped_matmul_share' has no variant "):
        find_variant("grouped_matmul_share", Variant())


def sizes(
    kernel: Kernel, reads: tuple[int, ...], writes: tuple[int, ...], **more: Any
) -> TileSizes:
    """One task of one row."""
    options = dict.fromkeys(kernel.options, 0) | {"tile_m": 128, "tile_n": 256, "tile_k": 64}
    return TileSizes(np.ones(1), reads, writes, options, **more)


@pytest.mark.parametrize(
    ("name", "reads", "writes", "cost"),
    [
        ("count_tokens", (2,), (6,), Cost()),
        ("grouped_matmul", (48, 64), (64,), Cost(macs=3072, bytes_moved=2 * (48 + 24 + 64))),
        ("swiglu", (80,), (40,), Cost(vector_elements=320, bytes_moved=240)),
    ],
)
def test_costs_of_one_row(name: str, reads: Any, writes: Any, cost: Cost):
    kernel = find_kernel(name)
    assert kernel.task_cost(sizes(kernel, reads, writes)) == cost


def test_tasks_that_share_a_product_have_equal_parts_of_its_cost():
    kernel = find_kernel("grouped_matmul_share")
    whole = kernel.task_cost(sizes(kernel, (32, 48), (48,)))
    assert whole == Cost(macs=1536, bytes_moved=184)
    part = kernel.task_cost(sizes(kernel, (32, 48), (48,), sharing=5))
    assert part == Cost(macs=308, bytes_moved=37)


def test_a_vector_task_lasts_as_long_as_its_busiest_unit():
    machine, kernel = load_machine("ascend-a3"), find_kernel("swiglu")
    rates = machine.rates
    of = sizes(kernel, (80,), (40,))
    start = rates.dma_gm_to_ub_start / rates.clock_frequency
    bandwidth = min(rates.core_bandwidth_gm_to_ub, rates.shared_bandwidth_l2 / machine.aiv_cores)
    assert kernel.seconds(machine, of) == pytest.approx([240 / bandwidth + 240 / 160 * start])
    slow = machine.with_rate("vector.bytes_per_cycle", 1)
    assert kernel.seconds(slow, of) == pytest.approx([4 * 320 / rates.clock_frequency])
    three = replace(of, rows=np.array([0.0, 3.0]))
    assert kernel.seconds(slow, three) == pytest.approx([0, 3 * 4 * 320 / rates.clock_frequency])


def test_a_matrix_kernel_without_a_time_of_its_own_lasts_as_long_as_its_products():
    machine = load_machine("ascend-a3")
    kernel = replace(find_kernel("grouped_matmul"), time=time_by_cost)
    found = kernel.seconds(machine, sizes(kernel, (64, 64), (64,)))
    assert found == pytest.approx([64 * 64 / 16**3 / machine.rates.clock_frequency])


def test_cann_like_products_take_longer():
    machine = load_machine("ascend-a3")

    def seconds(name: str, cann_like: bool) -> float:
        kernel = find_variant(name, Variant(cann_like=cann_like))
        of = sizes(kernel, (7168, 4096), (4096,), result_rows=128, result_bytes=4)
        (found,) = kernel.seconds(machine, replace(of, rows=np.array([1024.0])))
        return found

    for name in ("grouped_matmul", "weight_gradient"):
        assert seconds(name, True) > 1.01 * seconds(name, False), name


def test_an_unknown_kernel():
    with pytest.raises(
        KernelError,
        match=r"^unknown kernel 'swigul', registered: .*build_route, .*; did you mean 'swiglu'\?$",
    ):
        find_kernel("swigul")
    with pytest.raises(
        KernelError, match=r"^unknown kernel 'zzz', registered: .*weighted_sum.*$"
    ) as error:
        find_kernel("zzz")
    assert "did you mean" not in str(error.value)


def test_registering_twice():
    swiglu = find_kernel("swiglu")
    assert register_kernel(swiglu) is swiglu
    with pytest.raises(KernelError) as error:
        register_kernel(replace(swiglu, ascendc=replace(swiglu.ascendc, header="other.h")))
    assert str(error.value) == "kernel 'swiglu' is registered already, by hpmoe/swiglu.h"


USE: dict[str, Any] = {
    "core": CoreKind.AIV,
    "reads": 2,
    "writes": 2,
    "scalars": 1,
    "options": set(),
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"reads": 1}, "kernel 'place_tokens' takes 2 reads, found 1"),
        ({"writes": 3}, "kernel 'place_tokens' takes 2 writes, found 3"),
        ({"scalars": 0}, "kernel 'place_tokens' takes 1 scalars, found 0"),
        ({"core": CoreKind.AIC}, "kernel 'place_tokens' runs on aiv, found aic"),
        ({"options": {"b", "a"}}, "kernel 'place_tokens' takes the options none, found a, b"),
    ],
)
def test_uses_that_do_not_fit(change: dict[str, Any], problem: str):
    use: dict[str, Any] = {**USE, **change}
    assert find_kernel("place_tokens").mismatch(**use) == problem


def test_options_that_are_missing():
    use: dict[str, Any] = {
        **USE,
        "core": CoreKind.AIC,
        "writes": 1,
        "scalars": 0,
        "options": {"tile_m"},
    }
    assert find_kernel("grouped_matmul").mismatch(**use) == (
        "kernel 'grouped_matmul' takes the options tile_m, tile_n, tile_k, transpose_rhs, found "
        "tile_m"
    )


REPLACEMENTS: list[tuple[Callable[[Kernel], Kernel], str]] = [
    (lambda k: replace(k, name="other", ascendc=AscendCFunction("x::Y", "x.h")), ""),
    (lambda k: replace(k, options=("tile_k", "tile_m")), ""),
    (lambda k: replace(k, reads=tuple(TileOperand("any") for _ in k.reads)), ""),
    (lambda k: replace(k, core=CoreKind.AIV), "core: expected aic, found aiv"),
    (
        lambda k: replace(k, reads=(*k.reads, TileOperand("bias", Element.F32))),
        "reads: expected activation, activation, found activation, activation, f32",
    ),
    (lambda k: replace(k, writes=()), "writes: expected activation, found none"),
    (lambda k: replace(k, scalars=("n",)), "scalars: expected 0, found 1"),
    (
        lambda k: replace(k, options=("tile_m", "pad")),
        "options: expected some of tile_m, tile_n, tile_k, transpose_rhs, found pad",
    ),
]


@pytest.mark.parametrize(("change", "problem"), REPLACEMENTS)
def test_what_may_take_the_place_of_a_kernel(change: Callable[[Kernel], Kernel], problem: str):
    matmul = find_kernel("grouped_matmul")
    assert change(matmul).cannot_replace(matmul) == problem


def entry_points(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """An installed package that brings kernels."""
    info = folder / "some_kernels-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-kernels\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[hpmoe_ir.kernels]\n{text}\n")
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])


@pytest.mark.parametrize(
    ("point", "message"),
    [
        (
            "lost_kernel = no_such_module:KERNEL",
            "kernel 'lost_kernel': cannot load no_such_module:KERNEL: No module named "
            "'no_such_module'",
        ),
        (
            "lost_kernel = some_kernel_module:NOTHING",
            "kernel 'lost_kernel': cannot load some_kernel_module:NOTHING: module "
            "'some_kernel_module' has no attribute 'NOTHING'",
        ),
        (
            "lost_kernel = some_kernel_module:NUMBER",
            "kernel 'lost_kernel': expected some_kernel_module:NUMBER to be a Kernel of that name, "
            "found int",
        ),
        (
            "lost_kernel = some_kernel_module:OTHER",
            "kernel 'lost_kernel': expected some_kernel_module:OTHER to be a Kernel of that name, "
            "found swiglu",
        ),
    ],
)
def test_entry_points_that_lead_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str, message: str
):
    (tmp_path / "some_kernel_module.py").write_text(
        "from hpmoe_ir.kernels.registry import find_kernel\n"
        "NUMBER = 3\nOTHER = find_kernel('swiglu')\n"
    )
    entry_points(tmp_path, monkeypatch, point)
    with pytest.raises(KernelError) as error:
        find_kernel("lost_kernel")
    assert str(error.value) == message


def test_a_name_of_a_package_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    entry_points(tmp_path, monkeypatch, "lost_kernel = no_such_module:KERNEL")
    with pytest.raises(
        KernelError, match=r"registered: .*, lost_kernel, .*did you mean 'lost_kernel'\?$"
    ):
        find_kernel("lost_kernels")
