"""Line breaks of generated C++: as clang-format has them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.lowering.cpp_layout import COLUMNS, statement
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass

LAYER = LayerConfig("small", hidden=64, width=32, experts=8, top_k=2, ranks=4, tokens=64)


def formatted(text: str) -> str:
    """Text as clang-format has it in the style of the repository."""
    # Installed beside the Python that runs the tests, which need not be on the path.
    beside = str(Path(sys.executable).parent)
    formatter = shutil.which("clang-format", path=os.pathsep.join([beside, os.environ["PATH"]]))
    assert formatter is not None
    style = f"--style=file:{Path(__file__).parents[3] / '.clang-format'}"
    command = [formatter, style, "--assume-filename=device.cpp"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(
    "lowering",
    [
        LowerMoePass(),
        LowerMoePass(source_groups=2, row_chunks=2, put_chunks=2, tile_m=16, token_chunks=4),
        LowerMoePass(credit=False, reuse=False),
    ],
)
def test_functions_are_formatted(lowering: LowerMoePass):
    compiled = compile_module(
        make_context(), layer_module(LAYER), lowering, backward=DeriveBackwardPass()
    )
    for kernel in compiled.kernels.values():
        begin = kernel.source.index("namespace {")
        end = kernel.source.index('extern "C"')
        text = kernel.source[begin:end].rstrip() + "\n"
        assert max(map(len, text.splitlines())) <= COLUMNS
        assert formatted(text) == text


def test_short_statements_are_one_line():
    assert statement("env.Wait(env.Size(kDone));", 4) == "    env.Wait(env.Size(kDone));"


def test_comments_are_never_broken():
    text = "// " + "word " * 40
    assert statement(text, 2) == "  " + text


def test_a_broken_statement_has_the_same_tokens():
    line = f"const T read0 = f<a, b>({', '.join(f'g(x{i}) + h(y * {i})' for i in range(20))});"
    text = statement(line, 2)
    assert max(map(len, text.splitlines())) <= COLUMNS
    assert "".join(text.split()) == "".join(line.split())
    wrapped = f"void F() {{\n{text}\n}}\n"
    assert formatted(wrapped) == wrapped


def test_a_name_that_fits_no_line_stays_whole():
    name = "a" * (COLUMNS + 20)
    assert statement(f"f({name}, {name});", 2) == f"  f({name},\n    {name});"
