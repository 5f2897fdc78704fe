"""examples/mindspore_train.py: the losses of both backends stay together."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "mindspore_train.py"


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_the_losses_stay_together(mode: str, tmp_path: Path) -> None:
    picture = tmp_path / "curve.svg"
    words = ["--steps", "4", "--mode", mode, "--picture", str(picture)]
    run = subprocess.run(
        [sys.executable, EXAMPLE, *words], capture_output=True, text=True, timeout=180, check=False
    )
    assert run.returncode == 0, run.stderr
    rows = re.findall(r"^ +(\d) +([\d.]+) +([\d.]+) +([\d.]+)%$", run.stdout, re.MULTILINE)
    assert [int(step) for step, *_ in rows] == [0, 1, 2, 3]
    assert float(rows[-1][1]) < 0.8 * float(rows[0][1])
    assert all(float(apart) <= 3.0 for *_, apart in rows)
    assert picture.read_text().count("<circle") == 5
