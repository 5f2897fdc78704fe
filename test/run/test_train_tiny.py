"""examples/train_tiny.py: the loss of the generated code follows MindSpore's, step by step."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_tiny.py"

ROW = re.compile(
    r"^ *(?P<step>\d+) +(?P<ours>[\d.]+) +(?P<theirs>[\d.]+) +(?P<apart>[\d.]+)% "
    r"+(?P<allowed>[\d.]+)% +(?P<moved>\d+) +(?P<other>\d+)$",
    re.MULTILINE,
)


def train(*options: str, script: Path = EXAMPLE) -> subprocess.CompletedProcess[str]:
    """A run of the example."""
    command = [sys.executable, str(script), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_the_loss_follows_mindspore(dtype: str, tmp_path: Path) -> None:
    picture, text = tmp_path / "curve.svg", tmp_path / "curve.txt"
    run = train("--dtype", dtype, "--picture", str(picture), "--table", str(text))
    assert run.returncode == 0, run.stderr
    assert text.read_text() == run.stdout
    rows = list(ROW.finditer(run.stdout))
    assert [int(row["step"]) for row in rows] == list(range(50))
    for row in rows:
        assert float(row["apart"]) <= float(row["allowed"]) <= 3.0, row[0]
    # It learns, and the router's choices are not those of the beginning.
    assert float(rows[-1]["ours"]) < 0.5 * float(rows[0]["ours"])
    assert int(rows[-1]["moved"]) > 32
    assert picture.read_text().count("<circle") == 51


@pytest.mark.parametrize(
    "gradient, wrong",
    [
        ('gradients.pop("dgate")', '0 * gradients.pop("dgate")'),
        ('gradients.pop("dx")', '0 * gradients.pop("dx")'),
        ('g[f"d{name}"]', 'g[f"d{name}"][::-1]'),
    ],
    ids=["dgate", "dx", "weights of other experts"],
)
def test_a_wrong_gradient_shows(gradient: str, wrong: str, tmp_path: Path) -> None:
    """The tolerance is not one that everything passes."""
    source = EXAMPLE.read_text()
    assert source.count(gradient) == 1
    for path in EXAMPLE.parent.glob("train_tiny*.py"):
        (tmp_path / path.name).write_text(path.read_text())
    script = tmp_path / EXAMPLE.name
    script.write_text(source.replace(gradient, wrong))
    run = train("--steps", "25", script=script)
    assert run.returncode == 1
    assert re.fullmatch(
        r"step \d+: expected (a loss within [\d.]+% of [\d.]+, found [\d.]+|"
        r"at most 16 tokens with other experts than in MindSpore, found \d+)\n",
        run.stderr,
    )
