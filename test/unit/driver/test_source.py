"""Reading IR: places of operations, and messages with them."""

from __future__ import annotations

from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import UNKNOWN_LOC, ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from hpmoe_ir.diagnostics import (
    InputError,
    RefusedError,
    location_of,
    nearest,
    refuse,
    verify_module,
)
from hpmoe_ir.driver.source import make_context, parse_module, read_module
from hpmoe_ir.lowering.binary_target import BinaryTarget

TEXT = """\
func.func @f() {
    "test.op"() : () -> ()
  "test.op"() : () -> () loc("elsewhere.py":3:4)
  func.return
}
"""


def places(module: ModuleOp) -> list[str]:
    return [location_of(op) for op in module.walk()]


def test_operations_know_their_place():
    module = parse_module(make_context(), TEXT.encode(), "f.mlir")
    assert places(module) == ["", "f.mlir:1:1", "f.mlir:2:5", "elsewhere.py:3:4", "f.mlir:4:3"]


def test_lines_count_from_the_first():
    module = parse_module(make_context(), b'\n"test.op"() : () -> ()', "f.mlir", first_line=10)
    assert places(module) == ["", "f.mlir:11:1"]
    with pytest.raises(InputError) as error:
        parse_module(make_context(), b"\n  abc", "f.mlir", first_line=10)
    assert str(error.value).startswith("f.mlir:11:")


def test_an_operation_without_a_place_has_that_of_the_one_around_it():
    module = parse_module(make_context(), TEXT.encode(), "f.mlir")
    inner = list(module.walk())[2]
    inner.location = UNKNOWN_LOC
    assert location_of(inner) == "f.mlir:1:1"


def test_a_check_that_fails_after_a_pass_names_the_pass():
    text = b'%h = "test.op"() : () -> tensor<?x7xf32, #moe.grouped<2 rows>>\n' + (
        b"%a = moe.swiglu %h : tensor<?x7xf32, #moe.grouped<2 rows>>"
        b" -> tensor<?x3xf32, #moe.grouped<2 rows>>"
    )
    module = parse_module(make_context(), text, "f.mlir")
    with pytest.raises(InputError) as error:
        verify_module(module, after="some-pass")
    assert str(error.value) == (
        "f.mlir:2:1: error: after some-pass: moe.swiglu: h: expected an even width, a gate half "
        "and an up half, found 7"
    )


def test_reading_a_file(tmp_path: Path):
    file = tmp_path / "f.mlir"
    file.write_text(TEXT)
    assert len(list(read_module(make_context(), file).walk())) == 5
    with pytest.raises(InputError) as error:
        read_module(make_context(), tmp_path / "none.mlir")
    assert str(error.value) == (
        f"{tmp_path}/none.mlir: error: can't read the file: No such file or directory"
    )


def test_a_refusal_carries_the_operation():
    module = ModuleOp([])
    with pytest.raises(RefusedError) as error:
        refuse(module, "some-pass: no")
    assert error.value.op is module
    assert str(error.value) == "some-pass: no"


def test_nearest_names():
    known = ["convert-a", "convert-b", "plan"]
    assert nearest("convert-c", known) == "; did you mean 'convert-b' or 'convert-a'?"
    assert nearest("zzz", known) == "; known: convert-a, convert-b, plan"
    assert nearest("zzz", []) == ""


@dataclass(frozen=True)
class OneByte(BinaryTarget):
    name = "one-byte"

    def encode(self, ctx: Context, module: ModuleOp) -> bytes:
        return b"\xff"


def test_a_byte_target_refuses_to_write_text():
    with pytest.raises(DiagnosticException) as error:
        OneByte().emit(make_context(), ModuleOp([]), StringIO())
    assert str(error.value) == (
        "target 'one-byte' writes bytes, which only hpmoe-opt can do, not this tool"
    )
