"""`hpmoe import`: what it prints, and what it says of its options."""

import json
from pathlib import Path

import pytest

from hpmoe_ir.tools.hpmoe import main

DATA = Path(__file__).parents[2] / "data"
FAULTS = DATA / "configs" / "faults"
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of `hpmoe import WORDS`."""
    with pytest.raises(SystemExit) as stop:
        main(["import", *words])
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_notes_and_sources_are_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    graph = tmp_path / "graph.mlir"
    words = ["--config", str(FAULTS / "granite-4-h-small.json"), "--tokens", "8", "-o", str(graph)]
    status, out, err = run(capsys, *words)
    assert status == 0
    assert out == (
        "layer     granitemoehybrid: hidden 4096, expert width 768, top 10 of 72 experts over 1 "
        "ranks, 8 tokens a rank, capacity 80 rows, bf16\n"
        "source    granite-4-h-small.json\n"
        f"written   {graph}\n"
    )
    assert err == (
        "note: outside the expert part: router: softmax of the chosen\n"
        "note: outside the expert part: width of the shared experts: 1536\n"
    )
    assert graph.read_text().startswith("builtin.module")


def test_what_the_user_says_is_used(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text(
        json.dumps({"model_type": "new", "a": 1, "b": 2, "c": 3, "num_experts_per_tok": [2, 4]})
    )
    words = ["--config", str(path), "-o", str(tmp_path / "graph.mlir"), "--family", "mixtral"]
    words += ["--outside", "a,b", "--outside", "c", "--layer", "1", "--experts", "16"]
    words += ["--hidden", "64", "--width", "32", "--tokens", "5"]
    status, out, err = run(capsys, *words)
    assert status == 0
    assert "hidden 64, expert width 32, top 4 of 16 experts" in out
    assert [line for line in err.splitlines() if "--" in line] == [
        "note: outside the expert part: a, by --outside: 1",
        "note: outside the expert part: b, by --outside: 2",
        "note: outside the expert part: c, by --outside: 3",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "alias-bomb.yaml",
        "llama4-scout.json",
        "nemotron-3-nano.json",
        "x-drop.json",
        "x-hidden_activation.json",
        "x-mlp_bias.json",
    ],
)
def test_nothing_is_written_for_a_file_that_is_refused(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    status, out, err = run(capsys, "--config", str(FAULTS / name), "-o", str(tmp_path / "g.mlir"))
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(str(FAULTS / name))
    assert not (tmp_path / "g.mlir").exists()


@pytest.mark.parametrize(
    "changes, options, expected",
    [
        ({"intermediate_size": 8}, [], "width: expected a multiple of 16, found 8"),
        ({"hidden_size": 4100}, [], "hidden: expected a multiple of 16, found 4100"),
        ({}, ["--width", "24"], "width: expected a multiple of 16, found 24"),
        ({"torch_dtype": "float32"}, [], "dtype: expected bf16 or f16 (the types of the matrix "
         "cores), found 'f32'"),
        ({}, ["--dtype", "f32"], "dtype: expected bf16 or f16 (the types of the matrix cores), "
         "found 'f32'"),
    ],
)  # fmt: skip
def test_sizes_that_the_levels_below_refuse_are_refused(
    changes: dict[str, object],
    options: list[str],
    expected: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MIXTRAL | changes))
    status, _, err = run(capsys, "--config", str(path), "-o", str(tmp_path / "g.mlir"), *options)
    assert (status, err) == (1, f"error: layer 'mixtral': {expected}\n")


@pytest.mark.parametrize("name", ["ep1", "ep1-unfused", "ep2", "ep2-unfused"])
def test_a_graph_that_the_levels_below_refuse_says_so(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    source = str(DATA / f"mindformers-moelayer-{name}.mindir")
    status, _, err = run(capsys, "--mindspore", source, "-o", str(tmp_path / "graph.mlir"))
    assert status == 0
    assert err.splitlines()[-1] == (
        f"note: the levels below moe will refuse it: layer 'mindformers-moelayer-{name}': width: "
        "expected a multiple of 16, found 8"
    )


@pytest.mark.parametrize("option", ["family", "outside", "layer"])
@pytest.mark.parametrize(
    "source", [["--preset", "mixtral-8x7b"], ["--mindspore", "x.mindir"]], ids=["preset", "graph"]
)
def test_options_of_files_are_refused_elsewhere(
    option: str, source: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    status, _, err = run(capsys, *source, f"--{option}", "1", "-o", str(tmp_path / "g.mlir"))
    expected = f"error: --{option}: expected --config FILE, whose fields it is about\n"
    assert (status, err) == (1, expected)


def test_the_help_says_that_a_file_is_executed(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "--help")
    assert status == 0
    text = " ".join(out.split())
    assert (
        "a MindSpore Cell, whose file is executed with your rights, or an exported graph, which is "
        "only read"
    ) in text


def test_the_docs_say_that_a_file_is_executed():
    page = (DATA.parents[1] / "docs" / "importing.md").read_text()
    assert "`--mindspore FILE.py:Class` **executes the file**" in page
