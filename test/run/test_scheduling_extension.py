"""A policy, a schedule, a machine and a pipeline of another package, by name in every command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from compiled_layers import hpmoe
from installed import install

from hpmoe_ir.tools import hpmoe_opt

EXTENSION = Path(__file__).parent / "scheduling_extension"
TINY = ["--preset", "deepseek-v3-tiny", "--ranks", "2", "--tokens", "24"]
NAMED = ["--schedule", "strides-of-three", "--machine", "two-cores"]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    return tmp_path / "site"


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(EXTENSION, site, monkeypatch)


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    path = tmp_path / "graph.mlir"
    assert hpmoe("import", *TINY, "-o", str(path)) == 0
    return path


def lowered(graph: Path, passes: str, *words: str) -> str:
    """What hpmoe-opt writes."""
    output = graph.parent / "output.mlir"
    hpmoe_opt.main([str(graph), "-p", passes, *words, "-o", str(output)])
    return output.read_text()


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The message of a command that fails."""
    assert hpmoe(*words) == 1
    return capsys.readouterr().err.strip()


@pytest.mark.usefixtures("installed")
class TestInstalled:
    """The package is installed."""

    def test_hpmoe_opt(self, graph: Path):
        default = lowered(graph, "lower-moe{machine=two-cores}")
        texts = [
            lowered(graph, f"lower-moe{{policy={policy} machine=two-cores}}")
            for policy in ("strided", "strided{stride=2}", "strided{stride=3}")
        ]
        assert 'machine "two-cores"' in texts[0]
        assert texts[0] == texts[1]
        assert len({default, *texts}) == 3

    def test_run(self, capsys: pytest.CaptureFixture[str]):
        assert hpmoe("run", *TINY, *NAMED, "--check", "--interleavings", "2") == 0
        assert "check     passed" in capsys.readouterr().out

    def test_compile_and_what_its_manifest_names(self, tmp_path: Path):
        assert hpmoe("compile", *TINY, *NAMED, "-o", str(tmp_path / "layer")) == 0
        text = (tmp_path / "layer" / "manifest.json").read_text()
        manifest = json.loads(text)
        passes = "lower-moe{machine=two-cores policy=strided{stride=3}}"
        assert manifest["pipeline"] == passes
        assert manifest["kernels"]["moe_layer"]["machine"] == "two-cores"
        assert hpmoe("compile", *TINY, "-p", passes, "-o", str(tmp_path / "again")) == 0
        assert (tmp_path / "again" / "manifest.json").read_text() == text

    def test_simulate(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        path = tmp_path / "out.json"
        assert hpmoe("simulate", *TINY, *NAMED, "--json", str(path)) == 0
        assert "machine   two-cores" in capsys.readouterr().out
        (found,) = json.loads(path.read_text())
        assert found["serial_us"] > found["time_us"]

    def test_a_pipeline_shows_each_of_its_passes(
        self, graph: Path, capsys: pytest.CaptureFixture[str]
    ):
        text = lowered(graph, "lower-with-budget{budget=7}", "--time-passes")
        assert "budget 7" in text
        timed = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
        assert timed[0] == "convert-moe-to-comm"
        assert timed[-2:] == ["verify-queues", "set-waits"]
        assert hpmoe("run", *TINY, "-p", "lower-with-budget", "--level", "moe") == 0

    def test_what_is_refused(self, capsys: pytest.CaptureFixture[str]):
        for words, message in (
            (
                ["-p", "lower-moe{policy=strided{strid=3}}"],
                "policy 'strided': unknown option 'strid'; did you mean 'stride'?",
            ),
            (
                ["-p", "lower-moe{policy=strided{stride=0}}"],
                "option 'stride': expected 1 to 64 experts, found 0",
            ),
            (["-p", "lower-moe{policy=strid}"], "unknown policy 'strid'; did you mean 'strided'?"),
            (["--schedule", "strides-of"], "found 'strides-of'; did you mean 'strides-of-three'?"),
            (["--machine", "two-core"], "known: ascend-a2, ascend-a3, two-cores; did you mean"),
        ):
            assert message in refused(capsys, "run", *TINY, *words)


BROKEN = """
from pathlib import Path

from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.scheduling.order import Order
from hpmoe_ir.schedule.named import Schedule
from scheduling_extension.strided import Strided


class Failing(Strided):
    name = "failing"

    def __call__(self, work):
        raise KeyError("no such expert")


class Backwards(Strided):
    name = "backwards"

    def __call__(self, work):
        return Order([-keys for keys in super().__call__(work).keys])


NO_PASSES = Schedule(lambda machine: machine.no_such_size)
NO_MACHINE = Path(__file__).parent / "nowhere.toml"
NUMBER = 3
"""

GROUPS = {
    "hpmoe_ir.policies": {
        "failing": "broken:Failing",
        "backwards": "broken:Backwards",
        "other-name": "broken:Failing",
        "absent": "nowhere:Absent",
        "number": "broken:NUMBER",
    },
    "hpmoe_ir.schedules": {"no-passes": "broken:NO_PASSES", "number": "broken:NUMBER"},
    "hpmoe_ir.machines": {"no-machine": "broken:NO_MACHINE", "number": "broken:NUMBER"},
}
OF = "extension of scheduling-extension: hpmoe_ir"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["-p", "lower-moe{policy=failing}"],
            "assign-queues: policy failing of broken: KeyError: 'no such expert'",
        ),
        (
            ["-p", "lower-moe{policy=backwards}"],
            "assign-queues: policy backwards of broken puts task ",
        ),
        (
            ["-p", "lower-moe{policy=other-name}"],
            f"{OF}.policies: other-name = broken:Failing: expected a subclass of Policy whose name "
            "is 'other-name'",
        ),
        (
            ["-p", "lower-moe{policy=absent}"],
            f"{OF}.policies: absent = nowhere:Absent: can't load it: ModuleNotFoundError",
        ),
        (["-p", "lower-moe{policy=number}"], f"{OF}.policies: number = broken:NUMBER: expected a "),
        (
            ["--schedule", "no-passes"],
            f"{OF}.schedules: no-passes = broken:NO_PASSES: AttributeError",
        ),
        (
            ["--schedule", "number"],
            f"{OF}.schedules: number = broken:NUMBER: expected a Schedule, found int",
        ),
        (
            ["--machine", "no-machine"],
            f"{OF}.machines: no-machine = broken:NO_MACHINE: nowhere.toml: can't read the file: ",
        ),
        (
            ["--machine", "number"],
            f"{OF}.machines: number = broken:NUMBER: expected the Path of a description, found int",
        ),
    ],
)
def test_a_package_that_is_wrong_is_named(
    words: list[str],
    message: str,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    install(EXTENSION, site, monkeypatch, GROUPS)
    (site / "broken.py").write_text(BROKEN)
    assert message in refused(capsys, "run", *TINY, *words)


@pytest.mark.parametrize(
    ("group", "points", "words"),
    [
        ("policies", {"overlap": "scheduling_extension.strided:Strided"}, "policy=overlap"),
        ("schedules", {"auto": "scheduling_extension:STRIDES_OF_THREE"}, ""),
    ],
)
def test_a_name_that_is_taken_is_refused(
    group: str,
    points: dict[str, str],
    words: str,
    site: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    install(EXTENSION, site, monkeypatch, {f"hpmoe_ir.{group}": points})
    named = ["-p", f"lower-moe{{{words}}}"] if words else ["--schedule", "strides-of-three"]
    (name,) = points
    message = refused(capsys, "run", *TINY, *named)
    assert f"{OF}.{group}: {name} = " in message
    assert f"expected another name, hpmoe_ir has '{name}'" in message
