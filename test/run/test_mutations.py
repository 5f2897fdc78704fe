"""A generated kernel or table that is broken on purpose fails the check, and the report names the
task.

Each case changes one thing in a directory that `hpmoe compile` has written, as a wrong pass would,
and runs it by `hpmoe run --check`, several orders of the cores each.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.compiler import read_compiled
from hpmoe_ir.frontends.build_layer import FUNCTION
from hpmoe_ir.lowering.task_table import HEADER
from hpmoe_ir.source import make_context
from hpmoe_ir.tools.hpmoe import main

LAYER = ["--preset", "deepseek-v3-tiny", "--ranks", "2"]
LOWERING = ["-p", "lower-moe{source_groups=2 put_chunks=2}"]
RUN = ["--check", "--interleavings", "4", "--launches", "2", "--routing", "zipf:1.2"]


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled layer that is right."""
    directory = tmp_path_factory.mktemp("layer")
    with pytest.raises(SystemExit) as stop:
        main(["compile", *LAYER, *LOWERING, "-o", str(directory)])
    assert stop.value.code == 0
    return directory


def run(directory: Path) -> int:
    """Exit status of `hpmoe run --check`."""
    with pytest.raises(SystemExit) as stop:
        main(["run", str(directory), *RUN])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@dataclass
class Table:
    """The words of a table, with what they mean in a compiled layer."""

    directory: Path

    def __post_init__(self) -> None:
        self.path = self.directory / FUNCTION / "table.bin"
        self.words = np.frombuffer(self.path.read_bytes(), dtype="<u4").copy()
        self.program = read_compiled(make_context(), self.directory)[0].forward.program

    def section(self, name: str) -> int:
        """Index of the first word of a section."""
        return int(self.words[HEADER.index(name)]) // 4

    def threshold(self, event: str, index: int = 0) -> int:
        """Index of the threshold of an event."""
        line = self.program.events[event].line
        assert line is not None
        return self.section("thresholds") + line.value.data + index

    def size(self, name: str) -> int:
        """Index of a size, by its enumerator in the device source."""
        source = (self.directory / FUNCTION / "device.cpp").read_text()
        start = source.index("enum SizeIndex")
        names = source[start : source.index("}", start)].split("{")[1].replace(" ", "").split(",")
        return self.section("sizes") + [n.strip() for n in names].index(name)

    def slots(self, core: str, family: str) -> list[int]:
        """Indices of the slots of a family's tasks."""
        number = list(self.program.families).index(family)
        blocks = int(self.words[HEADER.index("blocks")])
        workers = blocks if core == "aic" else 2 * blocks
        first = self.section(f"{core}_queues")
        begin = first + workers + 1
        count = int(self.words[first + workers])
        return [i for i in range(begin, begin + count) if self.words[i] >> 24 == number]

    def write(self) -> None:
        """Writes the table with the right checksum, so that only the content is wrong."""
        body = self.words[len(HEADER) :].tobytes()
        self.words[HEADER.index("checksum")] = zlib.crc32(body)
        self.path.write_bytes(self.words.tobytes())


def raise_threshold(table: Table) -> None:
    """One signal more than there are: the matmul waits for ever."""
    table.words[table.threshold("dispatch_done", 3)] += 1


def lower_threshold(table: Table) -> None:
    """The sums begin when all rows but one put's are back."""
    table.words[table.threshold("return_done")] = 1


def raise_join(table: Table) -> None:
    """The route waits for the counts of one rank too many."""
    table.words[table.threshold("exchange_done")] += 1


def repeat_task(table: Table) -> None:
    """A task runs twice, and another never."""
    slots = table.slots("aic", "matmul")
    table.words[slots[0]] = table.words[slots[1]]


def swap_families(table: Table) -> None:
    """The first puts and the first sums change places: the sums are waited for too early."""
    early, late = table.slots("aiv", "count"), table.slots("aiv", "weighted_sum")
    table.words[early[0]], table.words[late[0]] = (
        int(table.words[late[0]]),
        int(table.words[early[0]]),
    )


def unknown_family(table: Table) -> None:
    """A slot names a family that the kernel does not have."""
    table.words[table.slots("aiv", "swiglu")[0]] = 200 << 24


def shift_buffer(table: Table) -> None:
    """The activations begin one tile later, inside another buffer."""
    table.words[table.size("kA")] = table.words[table.size("kH")]


def wrong_pitch(table: Table) -> None:
    """Rows of the up-projection's weights are taken to be 16 columns longer."""
    table.words[table.size("kW13Pitch")] += 16


def wrong_expert_step(table: Table) -> None:
    """The second expert's weights are looked for one row too early."""
    table.words[table.size("kW2Step2")] -= table.words[table.size("kW2Pitch")]


def shift_counters(table: Table) -> None:
    """The counters begin a line later: the last one lies behind the windows."""
    table.words[HEADER.index("counters")] += 64


@dataclass(frozen=True)
class Edit:
    """A change of the device source: within one function, one text for another."""

    function: str
    old: str
    new: str

    def apply(self, source: str) -> str:
        """The changed source; the text must be there."""
        start = source.index(f"inline void {self.function}(")
        end = source.index("\n}\n", start)
        body = source[start:end]
        assert self.old in body, f"{self.function} has no {self.old}"
        return source[:start] + body.replace(self.old, self.new, 1) + source[end:]


TABLES: dict[str, Callable[[Table], None]] = {
    f.__name__: f
    for f in (
        raise_threshold,
        lower_threshold,
        raise_join,
        repeat_task,
        swap_families,
        unknown_family,
        shift_buffer,
        wrong_pitch,
        wrong_expert_step,
        shift_counters,
    )
}

SOURCES = {
    "swiglu without its wait": Edit(
        "Swiglu", "env.Wait(env.Size(kMatmulDone)", "(void)(env.Size(kMatmulDone)"
    ),
    "puts announced to the wrong rank": Edit(
        "Dispatch", "+ env.Rank(), peer)", "+ env.Rank(), env.Rank())"
    ),
    "a block of columns too far": Edit(
        "Matmul", "n * env.Size(kMatmulW13Block)", "(n + 1) * env.Size(kMatmulW13Block)"
    ),
    "rows of the next expert": Edit("Matmul1", "route.Grouped(e,", "route.Grouped((e + 1) % 2,"),
    "put to where the rows came from": Edit("Dispatch", "route.Dest(", "route.Sent("),
    "returned rows of another source": Edit(
        "Return", "route.Grouped(e,", "route.Grouped((e + 1) % 2,"
    ),
    "no signal": Edit("Matmul1", "env.Signal(", "(void)("),
}


@pytest.mark.parametrize("name", TABLES)
def test_broken_table(
    name: str, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "layer"
    shutil.copytree(compiled, directory)
    table = Table(directory)
    TABLES[name](table)
    table.write()
    assert run(directory) == 1
    message = capsys.readouterr().err
    assert f"note: {FUNCTION}/table.bin was changed since it was compiled" in message
    assert ("task 0xc8000000" if name == "unknown_family" else "@") in message, message


@pytest.mark.parametrize("name", SOURCES)
def test_broken_source(
    name: str, compiled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "layer"
    shutil.copytree(compiled, directory)
    path = directory / FUNCTION / "device.cpp"
    path.write_text(SOURCES[name].apply(path.read_text()))
    assert run(directory) == 1
    message = capsys.readouterr().err
    assert f"note: {FUNCTION}/device.cpp was changed since it was compiled" in message
    assert "@" in message, message


def test_unbroken(compiled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the cases above start from passes."""
    assert run(compiled) == 0
    assert "check     passed against MindSpore" in capsys.readouterr().out
