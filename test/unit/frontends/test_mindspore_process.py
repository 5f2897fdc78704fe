"""Without MindSpore, what needs it says so in one line that names the extra; the rest works."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from hpmoe_ir.frontends.mindir import mindir_format
from hpmoe_ir.frontends.mindspore_process import mindspore_environment, mindspore_installed
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.run.oracle import Oracle, OracleError
from hpmoe_ir.tools.hpmoe import main

ROOT = Path(__file__).parents[3]
CELL = ROOT / "examples" / "mindspore_moe.py"
EXPORTED = ROOT / "test" / "data" / "mindformers-moelayer-ep2.mindir"
MISSING = "MindSpore is not installed: pip install 'hpmoe-ir[mindspore]'"


@pytest.fixture(autouse=True)
def no_mindspore(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes `import mindspore` fail as where it is not installed."""
    assert mindspore_installed(), "the extra is installed for tests"
    monkeypatch.setitem(sys.modules, "mindspore", None)


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The only line on standard error of a command that fails."""
    with pytest.raises(SystemExit) as e:
        main(words)
    assert e.value.code == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err.strip()


def test_the_oracle():
    layer = LayerConfig("small", hidden=48, width=32, experts=8, top_k=2, ranks=4, tokens=16)
    values = make_values(layer, [1] * 4, parse_routing("uniform"), seed=1)
    with Oracle() as oracle, pytest.raises(OracleError) as e:
        oracle.layer(values)
    assert str(e.value) == MISSING


def test_check_of_a_run(capsys: pytest.CaptureFixture[str]):
    words = ["run", "--preset", "deepseek-v3-tiny", "--ranks", "2", "--check"]
    assert refused(words, capsys) == f"error: --check: {MISSING}"


def test_import_of_a_cell(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ["import", "--mindspore", f"{CELL}:MoeFfn", "-o", str(tmp_path / "graph.mlir")]
    assert refused(words, capsys) == f"{CELL}:MoeFfn: error: {MISSING}"


def test_import_of_an_exported_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    # A module of MindSpore describes the format of the file; other tests may have loaded it.
    monkeypatch.setattr("hpmoe_ir.frontends.mindir.mindir_format", mindir_format.__wrapped__)
    words = ["import", "--mindspore", str(EXPORTED), "-o", str(tmp_path / "graph.mlir")]
    assert refused(words, capsys) == f"error: {MISSING}"


def test_the_example_that_trains(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["train_tiny.py"])
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    with pytest.raises(SystemExit) as e:
        runpy.run_path(str(ROOT / "examples" / "train_tiny.py"), run_name="__main__")
    assert e.value.code == f"train_tiny.py: {MISSING}"


def test_settings_of_a_cluster_are_kept_from_the_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANK_SIZE", "8")
    monkeypatch.setenv("GLOG_v", "0")
    environment = mindspore_environment()
    assert "RANK_SIZE" not in environment
    assert environment["GLOG_v"] == "3"
