"""Layers beyond the reach or the device memory of a machine, on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpmoe_ir.tools.hpmoe import main

GRADIENTS = ("compile", "--preset", "deepseek-v3", "--direction", "both")
TOO_LARGE = (
    "plan-memory: @moe_layer_backward needs 74038694144 bytes of device memory (30618812480 for "
    "arguments and results, 27917603008 of workspace, 15502278656 of windows), ascend-a3 has "
    "68719476736: lower the capacity, or allow it by the option 'over-memory'"
)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Runs `hpmoe`; returns its exit status and what it printed as an error."""
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    code = stop.value.code
    return (code if isinstance(code, int) else 0), capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (GRADIENTS, TOO_LARGE),
        (
            (*GRADIENTS, "-p", "derive-backward,lower-moe{source-groups=2}"),
            "plan-memory: @moe_layer_backward needs ",
        ),
        (
            (*GRADIENTS, "-p", "lower-moe", "--allow-over-memory"),
            "--allow-over-memory: with --passes, it is the option over-memory=true of plan-memory "
            "or lower-moe",
        ),
        (
            ("compile", "--preset", "deepseek-v3-tiny", "--machine", "ascend-a2", "--ranks", "64"),
            "convert-comm-to-tile: expected at most 8 ranks, as many as write each other's memory "
            "directly on ascend-a2, found 64",
        ),
        (
            ("simulate", "--preset", "deepseek-v3-tiny", "--machine", "ascend-a2", "--ranks", "16"),
            "convert-comm-to-tile: expected at most 8 ranks",
        ),
        (
            ("compile", "--preset", "deepseek-v3-tiny", "--experts", "8192"),
            "convert-comm-to-tile: expected at most 4096 experts, whose lists the 187392 bytes of "
            "UB of ascend-a3 hold, found 8192",
        ),
    ],
    ids=str,
)
def test_what_exceeds_the_machine_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    output = tmp_path / "out"
    more = () if words[0] == "simulate" else ("-o", str(output))
    code, err = run(capsys, *words, *more)
    assert code == 1
    assert err.startswith(f"error: {message}")
    assert err.count("\n") == 1
    assert not output.exists()


@pytest.mark.parametrize(
    "more",
    [
        ("--allow-over-memory",),
        ("-p", "derive-backward,lower-moe{over-memory=true}"),
        ("--capacity", "65536"),
        ("--ranks", "8"),
    ],
    ids=" ".join,
)
def test_what_is_allowed_or_smaller_compiles(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: tuple[str, ...]
) -> None:
    assert run(capsys, *GRADIENTS, *more, "-o", str(tmp_path / "out")) == (0, "")
    assert (tmp_path / "out" / "manifest.json").is_file()
