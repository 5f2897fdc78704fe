"""`hpmoe run --check` fails on a broken kernel or table, and its report names the task.

Each case changes one thing in a directory that `hpmoe compile` has written. Who notices which
mistake is a matter of test_mutants.py; here it is what a person is told.
"""

from __future__ import annotations

import re
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from hpmoe_ir.driver.compiled_files import read_compiled
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import FUNCTION
from hpmoe_ir.lowering.task_table import HEADER
from hpmoe_ir.tools.hpmoe import main

LAYER = ["--preset", "deepseek-v3-tiny", "--ranks", "2"]
BACKWARD = "moe_layer_backward"
LOWERING = ["-p", "lower-moe{source-groups=2 put-chunks=2}"]
RUN = ["--check", "--interleavings", "4", "--launches", "2", "--routing", "zipf:1.2"]


def compile_layer(directory: Path, *options: str) -> Path:
    """A compiled layer that is right."""
    with pytest.raises(SystemExit) as stop:
        main(["compile", *LAYER, *LOWERING, *options, "-o", str(directory)])
    assert stop.value.code == 0
    return directory


@pytest.fixture(scope="module")
def forward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled layer, the forward direction only."""
    return compile_layer(tmp_path_factory.mktemp("forward"))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A compiled layer with its gradients."""
    return compile_layer(tmp_path_factory.mktemp("both"), "--direction", "both")


def run(directory: Path, direction: str) -> int:
    """Exit status of `hpmoe run --check`."""
    with pytest.raises(SystemExit) as stop:
        main(["run", str(directory), "--edited-code", *RUN, "--direction", direction])
    assert isinstance(stop.value.code, int)
    return stop.value.code


@dataclass
class Table:
    """The words of a table, with what they mean in a compiled layer."""

    directory: Path
    name: str

    def __post_init__(self) -> None:
        self.path = self.directory / self.name / "table.bin"
        self.words = np.frombuffer(self.path.read_bytes(), dtype="<u4").copy()
        self.program = read_compiled(make_context(), self.directory)[0].kernels[self.name].program

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
        source = (self.directory / self.name / "device.cpp").read_text()
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


def unknown_family(table: Table) -> None:
    """A slot names a family that the kernel does not have."""
    table.words[table.slots("aiv", "swiglu")[0]] = 200 << 24


def shift_buffer(table: Table) -> None:
    """The activations begin one tile later, inside another buffer."""
    table.words[table.size("kA")] = table.words[table.size("kH")]


NAMES_A_TASK = re.compile(r"@\w+ \([\d, ]*\)")
"""A family and a grid point."""


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


def repeat_gradient_task(table: Table) -> None:
    """A block of a weight gradient is computed twice, and another never."""
    slots = table.slots("aic", "weight_gradient")
    table.words[slots[0]] = table.words[slots[1]]


FORWARD_TABLES: tuple[Callable[[Table], None], ...] = (
    raise_threshold,
    unknown_family,
    shift_buffer,
)

FORWARD_SOURCES = {
    "puts announced to the wrong rank": Edit(
        "Dispatch", "+ env.Rank(), peer)", "+ env.Rank(), env.Rank())"
    ),
    "rows of the next expert": Edit("Matmul1", "route.Grouped(e,", "route.Grouped((e + 1) % 2,"),
}

BACKWARD_SOURCES = {
    "copies summed before they are back": Edit(
        "SumCopies", "env.Wait(env.Size(kReturnDone)", "(void)(env.Size(kReturnDone)"
    ),
}


def break_table(directory: Path, name: str, change: Callable[[Table], None]) -> None:
    """Makes one change of a table."""
    table = Table(directory, name)
    change(table)
    table.write()


def break_source(directory: Path, name: str, edit: Edit) -> None:
    """Makes one change of a device source."""
    path = directory / name / "device.cpp"
    path.write_text(edit.apply(path.read_text()))


@pytest.mark.parametrize("change", FORWARD_TABLES, ids=lambda f: f.__name__)
def test_broken_forward_table(
    change: Callable[[Table], None],
    forward: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = Path(shutil.copytree(forward, tmp_path / "layer"))
    break_table(directory, FUNCTION, change)
    assert run(directory, "forward") == 1
    message = capsys.readouterr().err
    assert f"note: {FUNCTION}/table.bin was edited since it was compiled" in message
    assert ("found one of family 200" if change is unknown_family else "@") in message, message


def test_broken_backward_table(
    both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = Path(shutil.copytree(both, tmp_path / "layer"))
    break_table(directory, BACKWARD, repeat_gradient_task)
    assert run(directory, "backward") == 1
    message = capsys.readouterr().err
    assert f"note: {BACKWARD}/table.bin was edited since it was compiled" in message
    assert NAMES_A_TASK.search(message), message


@pytest.mark.parametrize("name", FORWARD_SOURCES)
def test_broken_forward_source(
    name: str, forward: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = Path(shutil.copytree(forward, tmp_path / "layer"))
    break_source(directory, FUNCTION, FORWARD_SOURCES[name])
    assert run(directory, "forward") == 1
    assert NAMES_A_TASK.search(capsys.readouterr().err)


@pytest.mark.parametrize("name", BACKWARD_SOURCES)
def test_broken_backward_source(
    name: str, both: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = Path(shutil.copytree(both, tmp_path / "layer"))
    break_source(directory, BACKWARD, BACKWARD_SOURCES[name])
    assert run(directory, "backward") == 1
    message = capsys.readouterr().err
    assert NAMES_A_TASK.search(message), message


def test_unbroken(both: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the cases above start from passes."""
    assert run(both, "both") == 0
    out = capsys.readouterr().out
    assert "check     passed against MindSpore" in out
    assert "gradients passed against MindSpore" in out
