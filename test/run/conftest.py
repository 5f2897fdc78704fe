"""Fixtures of the runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from installed import install

PLANTED = Path(__file__).parent / "planted_faults"


@pytest.fixture
def planted_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of faults as an installer leaves it."""
    install(PLANTED, tmp_path / "site", monkeypatch)
