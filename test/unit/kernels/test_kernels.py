"""The kernel library: finding, registering and replacing kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hpmoe_ir.kernels.kernel import Kernel, KernelError, TileOperand
from hpmoe_ir.kernels.registry import find_kernel, register_kernel

DEVICE = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"

OWN = (
    "add_rows",
    "build_route",
    "copy_rows",
    "count_tokens",
    "exchange_counts",
    "gate_gradient",
    "gather_rows",
    "gather_scaled_rows",
    "grouped_matmul",
    "grouped_matmul_share",
    "place_tokens",
    "plain_grouped_matmul",
    "plain_grouped_matmul_share",
    "plain_weight_gradient",
    "plain_weight_gradient_share",
    "sum_copies",
    "swiglu",
    "swiglu_grad",
    "weight_gradient",
    "weight_gradient_share",
    "weighted_sum",
)


@pytest.mark.parametrize("name", OWN)
def test_own_kernels_are_declared_in_their_headers(name: str):
    kernel = find_kernel(name)
    assert kernel.name == name
    namespace, _, function = kernel.function.partition("::")
    assert namespace == "hpmoe"
    assert f" {function}(" in (DEVICE / kernel.header).read_text()


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
        register_kernel(replace(swiglu, header="other.h"))
    assert str(error.value) == "kernel 'swiglu' is registered already, by hpmoe/swiglu.h"


USE: dict[str, Any] = {"core": "aiv", "reads": 2, "writes": 2, "scalars": 1, "options": set()}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({}, ""),
        ({"reads": 1}, "kernel 'place_tokens' takes 2 reads, found 1"),
        ({"writes": 3}, "kernel 'place_tokens' takes 2 writes, found 3"),
        ({"scalars": 0}, "kernel 'place_tokens' takes 1 scalars, found 0"),
        ({"core": "aic"}, "kernel 'place_tokens' runs on aiv, found aic"),
        ({"options": {"b", "a"}}, "kernel 'place_tokens' takes the options none, found a, b"),
    ],
)
def test_uses_that_do_not_fit(change: dict[str, Any], problem: str):
    use: dict[str, Any] = {**USE, **change}
    assert find_kernel("place_tokens").mismatch(**use) == problem


def test_options_that_are_missing():
    use: dict[str, Any] = {**USE, "core": "aic", "writes": 1, "scalars": 0, "options": {"tile_m"}}
    assert find_kernel("grouped_matmul").mismatch(**use) == (
        "kernel 'grouped_matmul' takes the options tile_m, tile_n, tile_k, transpose_rhs, found "
        "tile_m"
    )


REPLACEMENTS: list[tuple[Callable[[Kernel], Kernel], str]] = [
    (lambda k: replace(k, name="other", function="x::Y", header="x.h"), ""),
    (lambda k: replace(k, options=("tile_k", "tile_m")), ""),
    (lambda k: replace(k, reads=tuple(TileOperand("any") for _ in k.reads)), ""),
    (lambda k: replace(k, core="aiv"), "core: expected aic, found aiv"),
    (
        lambda k: replace(k, reads=(*k.reads, TileOperand("bias", "f32"))),
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
