"""The L2 model of timed runs against a plain LRU cache of lines."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from hpmoe_ir.runtime.cpu_build import ENGINE_DIR, find_compiler


class Touch(NamedTuple):
    """`rows` rows of `size` bytes, from start to start `pitch` bytes apart."""

    begin: int
    size: int
    write: bool
    pitch: int = 0
    rows: int = 1


LINES = 32
"""Lines that are touched at one time."""


class LeastRecentlyUsed:
    """An LRU cache: each line has the time of its last use, and the oldest one is evicted."""

    def __init__(self, lines: int, line: int) -> None:
        self.lines, self.line = lines, line
        self.used: dict[int, int] = {}
        self.dirty: set[int] = set()
        self.now = 0

    def touch(self, touch: Touch) -> int:
        """Bytes read from and written to memory."""
        return sum(
            self.row(begin, begin + touch.size, touch.write)
            for begin in (touch.begin + row * touch.pitch for row in range(touch.rows))
        )

    def row(self, begin: int, end: int, write: bool) -> int:
        moved = 0
        for block in range(begin // self.line // LINES, (end - 1) // self.line // LINES + 1):
            self.now += 1
            first = max(begin // self.line, block * LINES)
            last = min((end - 1) // self.line, block * LINES + LINES - 1)
            for line in range(first, last + 1):
                moved += self.line * (line not in self.used and not write)
                self.used[line] = self.now
                if write:
                    self.dirty.add(line)
            while len(self.used) > self.lines:
                oldest = min(self.used, key=lambda line: (self.used[line], line))
                del self.used[oldest]
                moved += self.line * (oldest in self.dirty)
                self.dirty.discard(oldest)
        return moved


@pytest.fixture(scope="module")
def l2_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("l2") / "l2_trace"
    source = Path(__file__).parent / "l2_trace.cpp"
    command = [*find_compiler(), "-std=c++17", "-O1", "-fsanitize=address,undefined"]
    command += [
        f"-I{ENGINE_DIR}",
        str(source),
        str(ENGINE_DIR / "clocks" / "l2.cpp"),
        "-o",
        str(target),
    ]
    subprocess.run(command, check=True)
    return target


def moved(l2_trace: Path, size: int, line: int, touches: list[Touch]) -> list[int]:
    """Returns the bytes that the CPU model's cache moves at each touch."""
    span = max(t.begin + t.size + (t.rows - 1) * t.pitch for t in touches)
    lines = [
        f"{size} {line} {span}",
        *(f"{t.begin} {t.size} {t.pitch} {t.rows} {int(t.write)}" for t in touches),
    ]
    done = subprocess.run(
        [l2_trace], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    return [int(text) for text in done.stdout.split()]


def expected(size: int, line: int, touches: list[Touch]) -> list[int]:
    cache = LeastRecentlyUsed(size // line, line)
    return [cache.touch(touch) for touch in touches]


@pytest.mark.parametrize("line", [96, 128, 512])
@pytest.mark.parametrize("seed", range(5))
def test_it_is_the_textbook_cache(l2_trace: Path, seed: int, line: int):
    """Random ranges, some of them repeated, in caches of 50 to 300 lines."""
    rng = random.Random(seed)
    size = line * rng.randint(50, 300)
    span = 3 * size
    often = [rng.randrange(span) for _ in range(8)]
    touches: list[Touch] = []
    for _ in range(1500):
        begin = rng.choice([rng.randrange(span), rng.choice(often)])
        length = rng.randint(1, rng.choice([line, 40 * line]))
        touches.append(Touch(begin, length, rng.random() < 0.3))
    found = moved(l2_trace, size, line, touches)
    assert found == expected(size, line, touches)
    # Without both hits and evictions nothing would be tested.
    assert 0 in found
    assert sum(found) > 3 * size


def test_it_stays_so_for_long(l2_trace: Path):
    """Many touches, so that the cache reuses its records of them."""
    rng = random.Random(0)
    line, lines = 512, 80
    touches: list[Touch] = []
    for _ in range(200_000):
        begin = rng.randrange(lines * 2) * line
        touches.append(Touch(begin, rng.randint(1, 3) * line, rng.random() < 0.3))
    found = moved(l2_trace, lines * line, line, touches)
    assert found == expected(lines * line, line, touches)


@pytest.mark.parametrize("line", [128, 512])
@pytest.mark.parametrize("seed", range(8))
def test_rows_that_are_used_again(l2_trace: Path, seed: int, line: int):
    """Rows of a few shapes, which are disjoint, adjacent or overlapping, smaller than a line or
    larger than the cache. Many touches hit exactly what earlier ones left."""
    rng = random.Random(seed)
    size = line * rng.randint(15, 150)
    shapes: list[Touch] = []
    for _ in range(12):
        width = rng.choice([rng.randint(1, line), line, 2 * line, rng.randint(1, 40 * line)])
        pitch = rng.choice([width // 2, width, width + 1, 2 * width, 3 * line + width, 8 * line])
        shape = Touch(rng.randrange(400 * line), width, False, pitch, rng.randint(1, 20))
        shapes += [shape, shape._replace(begin=shape.begin + width)]
    touches: list[Touch] = []
    while len(touches) < 400:
        few = rng.sample(shapes, rng.randint(1, 4))
        for _ in range(rng.randint(1, 6)):
            touches.append(rng.choice(few)._replace(write=rng.random() < 0.3))
    found = moved(l2_trace, size, line, touches)
    assert found == expected(size, line, touches)
    assert found.count(0) > 20
    assert sum(found) > size


@pytest.mark.parametrize("pitch", [0, 1, 20, 39])
def test_rows_that_overlap_and_do_not_fit(l2_trace: Path, pitch: int):
    """Each row begins with lines of the previous row, some of which have just been evicted."""
    line, lines = 512, 15
    touches = [Touch(0, 40 * line, write, pitch * line, 5) for write in (False, True, False)]
    found = moved(l2_trace, lines * line, line, touches)
    assert found == expected(lines * line, line, touches)
    assert min(found) >= 5 * (40 - lines - pitch) * line


@pytest.mark.parametrize("fits", [True, False])
def test_blocks_of_columns_of_a_matrix(l2_trace: Path, fits: bool):
    """A product reads blocks of columns several times each; the cache holds exactly these."""
    line, rows, pitch, width = 512, 60, 14336, 1024
    held = rows * 2 * width
    size = held if fits else held - line
    touches: list[Touch] = []
    for pair in range(0, pitch, 2 * width):
        for _ in range(3):
            for begin in (pair, pair + width):
                touches.append(Touch(begin, width, False, pitch, rows))
    found = moved(l2_trace, size, line, touches)
    assert found == expected(size, line, touches)
    matrix = rows * pitch
    assert (sum(found) == matrix) == fits
