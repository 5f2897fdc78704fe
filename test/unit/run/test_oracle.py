"""MindSpore as the reference, in a process of its own."""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy_layer import numpy_layer

from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import LayerValues, make_values
from hpmoe_ir.run.oracle import Oracle, OracleError

LAYER = LayerConfig("small", hidden=48, width=32, experts=8, top_k=2, ranks=4, tokens=16)


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as oracle:
        yield oracle


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
@pytest.mark.parametrize("top_k", [1, 2, 8])
@pytest.mark.parametrize("routing", ["zipf:1.2", "one-expert"])
def test_mindspore_and_numpy_agree(oracle: Oracle, routing: str, top_k: int, dtype: Dtype):
    layer = LAYER.with_sizes(top_k=top_k, dtype=dtype)
    values = make_values(layer, [16, 0, 1, 7], parse_routing(routing), seed=4)
    for mine, theirs in zip(numpy_layer(values), oracle.layer(values), strict=True):
        assert mine.shape == theirs.shape
        assert theirs.dtype == np.float64
        assert np.abs(mine - theirs).max(initial=0.0) < 1e-13


def test_the_process_serves_many_cases(oracle: Oracle):
    values = make_values(LAYER, [16] * 4, parse_routing("uniform"), seed=1)
    first = oracle.layer(values)
    for _ in range(10):
        assert all((a == b).all() for a, b in zip(first, oracle.layer(values)))
    assert oracle.version


def test_no_tokens_need_no_process():
    values = make_values(LAYER, [0] * 4, parse_routing("uniform"), seed=1)
    with Oracle(python="/nonexistent") as idle:
        assert [out.shape for out in idle.layer(values)] == [(0, 48)] * 4


def test_mindspore_is_not_imported_here(oracle: Oracle, monkeypatch: pytest.MonkeyPatch):
    """Where it was not before; other tests of this process may have imported it."""
    for name in [n for n in sys.modules if n.partition(".")[0] == "mindspore"]:
        monkeypatch.delitem(sys.modules, name)
    oracle.layer(make_values(LAYER, [1] * 4, parse_routing("uniform"), seed=1))
    assert "mindspore" not in sys.modules


def impostor(tmp_path: Path, body: str) -> str:
    """A program that takes the place of Python with MindSpore."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def case() -> LayerValues:
    return make_values(LAYER, [1] * 4, parse_routing("uniform"), seed=1)


@pytest.mark.parametrize(
    "body, message",
    [
        (
            "echo \"ModuleNotFoundError: No module named 'mindspore'\" >&2; exit 1",
            "the MindSpore oracle ended with status 1: "
            "ModuleNotFoundError: No module named 'mindspore'",
        ),
        (
            "echo ready 0; read line; kill -SEGV $$",
            "the MindSpore oracle ended with status -11",
        ),
        (
            "echo ready 0; read line; echo chatter; echo error: no such kernel; sleep 9",
            "MindSpore oracle: no such kernel",
        ),
        ("echo done; sleep 9", "MindSpore oracle: expected it to start, found 'done'"),
    ],
)
def test_a_process_that_fails_is_one_message(tmp_path: Path, body: str, message: str):
    with Oracle(python=impostor(tmp_path, body)) as broken, pytest.raises(OracleError) as e:
        broken.layer(case())
    assert str(e.value) == message


def test_a_missing_program_is_one_message():
    with Oracle(python="/nonexistent/python") as missing, pytest.raises(OracleError) as e:
        missing.layer(case())
    assert str(e.value) == "the MindSpore oracle can't start: no program '/nonexistent/python'"
