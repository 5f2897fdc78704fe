"""Rows cut into tiles that the route numbers: right under any routing, and no wait too few."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.layer.routing import IdArray
from hpmoe_ir.tools.hpmoe import main

LAYER = ["--preset", "deepseek-v3-tiny", "--hidden", "64", "--width", "32"]
SIZES = ["--ranks", "4", "--experts", "8", "--top-k", "2"]
TOKENS = ["--tokens", "24"]
TILES = "row-cut=tiles row-tiles=9 tile-m=16 policy=tiles return-cols=32"
"""With 24 rows of an expert under balanced routing, and at most 192 of a rank."""


def status(*words: str) -> int | str | None:
    """The exit status of a command."""
    with pytest.raises(SystemExit) as stop:
        main(words)
    return stop.value.code


def expert_ids(kind: str, ranks: int = 4, tokens: int = 24) -> list[IdArray]:
    """Experts of the tokens of each rank, int32 [t, 2], of 8 experts on 4 ranks."""
    rng: Any = np.random.default_rng(1)
    match kind:
        case "one rank gets all":
            return [np.tile(np.array([2, 3], np.int32), (tokens, 1))] * ranks
        case "one expert gets all":
            others = rng.integers(1, 8, tokens)
            return [np.stack([np.zeros(tokens), others], 1).astype(np.int32)] * ranks
        case "one token":
            return [np.array([[7, 0]], np.int32), *[np.zeros((0, 2), np.int32)] * (ranks - 1)]
        case "no tokens on two ranks":
            own = rng.permuted(np.tile(np.arange(8), (tokens, 1)), axis=1)[:, :2]
            some = own.astype(np.int32)
            return [some, some[:0], some[:17], some[:0]]
        case _:
            raise AssertionError(kind)


ROUTINGS = ("one rank gets all", "one expert gets all", "one token", "no tokens on two ranks")


@pytest.mark.parametrize("kind", ROUTINGS)
@pytest.mark.parametrize("level", ["tile", "queue", "code"])
def test_routings_at_the_ends(
    level: str, kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three launches, both directions, several orders of the cores where there are some."""
    path, own = tmp_path / "routing.npz", expert_ids(kind)
    np.savez(path, **{f"ids.{r}": ids for r, ids in enumerate(own)})
    words = ["run", *LAYER, *SIZES, "-p", f"lower-moe{{{TILES}}}", "--level", level]
    words += ["--tokens", ",".join(str(len(ids)) for ids in own)]
    words += ["--routing", str(path), "--direction", "both", "--launches", "3", "--check"]
    more = ["--interleavings", "4"] if level == "code" else []
    assert status(*words, *more) == 0, capsys.readouterr().err
    found = capsys.readouterr().out
    assert "check     passed" in found
    assert "gradients passed" in found


@pytest.mark.parametrize("routing", ["uniform", "zipf:0.8", "imbalance:1.9"])
def test_changing_routings(routing: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each launch has another one; late ranks and cache lines that are loaded early."""
    words = ["run", *LAYER, *SIZES, *TOKENS, "-p", f"lower-moe{{{TILES}}}", "--routing", routing]
    words += ["--launches", "4", "--interleavings", "3", "--check"]
    for more in ([], ["--late", "1"], ["--memory", "early"], ["--memory", "weak"]):
        assert status(*words, *more) == 0, capsys.readouterr().err


@pytest.fixture(scope="module")
def queues(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The queue level of a layer with tiles."""
    directory = tmp_path_factory.mktemp("tiles") / "layer"
    passes = f"lower-moe{{{TILES}}}"
    assert status("compile", *LAYER, *SIZES, *TOKENS, "-p", passes, "-o", str(directory)) == 0
    return (directory / "queue.mlir").read_text()


PARTS = r"(queue.wait @matmul \(t, n\) for @dispatch_done )\(parts\(t of 9 by 16\)\)"
BACK = (
    r"(queue.wait @return \(e, s, c, n\) for @matmul_1_done )"
    r"\(tiles\(e, (\(rank \+ s\) mod 4) of 4, of 9 by 16\), n\)"
)

MUTATIONS: dict[str, tuple[str, str]] = {
    "no wait for parts": (PARTS + r"\n", ""),
    "parts of the first tile": (PARTS, r"\1(parts(0 of 9 by 16))"),
    "parts of the last tile": (PARTS, r"\1(parts(8 of 9 by 16))"),
    "parts of the next tile": (PARTS, r"\1(parts((t + 1) mod 9 of 9 by 16))"),
    "parts of the tile before": (PARTS, r"\1(parts((t + 8) mod 9 of 9 by 16))"),
    "parts of every second tile": (PARTS, r"\1(parts(t floordiv 2 * 2 of 9 by 16))"),
    "parts of higher tiles": (PARTS, r"\1(parts(t of 9 by 32))"),
    "parts of lower tiles": (PARTS, r"\1(parts(t of 9 by 8))"),
    "parts of another number of tiles": (PARTS, r"\1(parts(t of 18 by 16))"),
    "one part": (PARTS, r"\1(t floordiv 5, 0)"),
    "no wait for tiles": (BACK + r"\n", ""),
    "tiles of the first expert": (BACK, r"\1(tiles(0, \2 of 4, of 9 by 16), n)"),
    "tiles of the other expert": (BACK, r"\1(tiles((e + 1) mod 2, \2 of 4, of 9 by 16), n)"),
    "tiles of another rank": (BACK, r"\1(tiles(e, (rank + s + 1) mod 4 of 4, of 9 by 16), n)"),
    "tiles of the own rank": (BACK, r"\1(tiles(e, rank of 4, of 9 by 16), n)"),
    "tiles of half of the ranks": (BACK, r"\1(tiles(e, s floordiv 2 of 2, of 9 by 16), n)"),
    "tiles of another height": (BACK, r"\1(tiles(e, \2 of 4, of 9 by 32), n)"),
    "tiles of the first columns": (BACK, r"\1(tiles(e, \2 of 4, of 9 by 16), 0)"),
    "tiles of the other columns": (BACK, r"\1(tiles(e, \2 of 4, of 9 by 16), (n + 1) mod 2)"),
    "one tile": (BACK, r"\1(e * 4 + s, n)"),
    "parts before the route": (r"queue.wait @matmul \(t, n\) for @build_route_done \(\)\n", ""),
    "tiles before the route": (
        r"queue.wait @return \(e, s, c, n\) for @build_route_done \(\)\n",
        "",
    ),
    "a signal of another part": (
        r"(queue.signal @dispatch \(p, e, c\) to @dispatch_done )\(e, rank\)",
        r"\1(e, (rank + 1) mod 4)",
    ),
    "a signal of another tile": (
        r"(queue.signal @matmul_1 \(t, n\) to @matmul_1_done )\(t, n\)",
        r"\1((t + 1) mod 9, n)",
    ),
    "rows of another tile": (
        r"(reads @recv\w*)\[tile\(t of 9 by 16\), :\], (@w13)",
        r"\1[tile((t + 1) mod 9 of 9 by 16), :], \2",
    ),
    "rows of higher tiles": (
        r"(reads @recv\w*)\[tile\(t of 9 by 16\), :\], (@w13)",
        r"\1[tile(t of 9 by 32), :], \2",
    ),
    "a tile that is not written": (r"@matmul_1 \(t, n\) in \(9, 2\)", "@matmul_1 (t, n) in (8, 2)"),
}
"""Patterns of the queue level, and what is put in their place."""


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_is_refused(
    name: str, queues: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern, other = MUTATIONS[name]
    text, count = re.subn(pattern, other, queues, count=1)
    assert count == 1
    path = tmp_path / "queue.mlir"
    path.write_text(text)
    capsys.readouterr()
    assert status("run", str(path)) == 1
    message = capsys.readouterr().err
    assert message.startswith(f"{path}:"), message
    assert message.count("\n") == 1


def test_the_program_itself_is_accepted(
    queues: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "queue.mlir"
    path.write_text(queues)
    assert status("run", str(path), "--check", "--routing", "uniform") == 0
    assert "check     passed" in capsys.readouterr().out
