"""Fixtures of the tests that import MindSpore."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Read when MindSpore is imported.
os.environ.setdefault("GLOG_v", "3")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty working directory, since MindSpore leaves files behind."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The file of a machine on which a launch takes little time."""
    from moe_net import FEW_CORES

    path = tmp_path_factory.mktemp("machine") / "few-cores.toml"
    path.write_text(FEW_CORES)
    return str(path)
