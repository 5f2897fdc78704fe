"""Hardware numbers in device headers: in machine.h and memories.h, equal to those of a machine."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hpmoe_ir.lowering.ascendc.source import memory_definitions
from hpmoe_ir.machines.machine import Machine, load_machine, machine_names
from hpmoe_ir.runtime.cpu_build import find_compiler

DEVICE_DIR = Path(__file__).parents[3] / "hpmoe_ir" / "runtime" / "device"
HEADERS = sorted((DEVICE_DIR / "hpmoe").rglob("*.h"))


def expected_values(machine: Machine) -> dict[str, int]:
    """C++ expressions over the constants of both headers, and their values by a description."""
    return {
        "kAivPerAic": machine.aiv_per_aic,
        "kL0aBytes": machine.l0a_bytes,
        "kL0bBytes": machine.l0b_bytes,
        "kL0cBytes": machine.l0c_bytes,
        "kL1Bytes": machine.l1_usable,
        "kUbBytes": machine.ub_usable,
        "kCounterLine": machine.counter_line,
        "1ull << kPointBits": machine.queue_points,
        "1ull << (32 - kPointBits)": machine.families,
        "kL2Line": int(machine.numbers["l2.line"].value),
    }


def differences(machine: Machine, folder: Path) -> str:
    """The compiler's complaints about constants that differ from the description."""
    source = folder / "constants.cpp"
    lines = [memory_definitions(machine), '#include "hpmoe/memories.h"', "using namespace hpmoe;"]
    for expression, value in expected_values(machine).items():
        lines.append(f'static_assert(({expression}) == {value}ull, "{expression}: {value}");')
    source.write_text("\n".join(lines) + "\n")
    command = [*find_compiler(), "-std=c++17", "-fsyntax-only", f"-I{DEVICE_DIR}", str(source)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


@pytest.mark.parametrize("name", machine_names())
def test_constants_are_those_of_the_machine_description(name: str, tmp_path: Path):
    machine = load_machine(name)
    assert differences(machine, tmp_path) == ""
    assert f"architecture {machine.arch}," in (DEVICE_DIR / "hpmoe" / "machine.h").read_text()


def test_each_constant_with_a_section_is_compared():
    folder = DEVICE_DIR / "hpmoe"
    text = (folder / "machine.h").read_text() + (folder / "memories.h").read_text()
    named = re.findall(r"constexpr uint32_t (k\w+) = [^;]+;\s*// \[\w+\] \w+", text)
    compared = " ".join(expected_values(load_machine("ascend-a3")))
    assert len(named) == 9
    assert [n for n in named if not re.search(rf"\b{n}\b", compared)] == []


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({"aiv_per_aic": 1}, "kAivPerAic: 1"),
        ({"counter_line": 128}, "kCounterLine: 128"),
        ({"queue_points": 1 << 20}, "1ull << kPointBits: 1048576"),
    ],
)
def test_another_description_is_noticed(change: dict[str, int], complaint: str, tmp_path: Path):
    assert complaint in differences(replace(load_machine("ascend-a3"), **change), tmp_path)


def test_sources_that_do_not_define_the_memories_do_not_compile(tmp_path: Path):
    source = tmp_path / "none.cpp"
    source.write_text('#include "hpmoe/memories.h"\n')
    command = [*find_compiler(), "-std=c++17", "-fsyntax-only", f"-I{DEVICE_DIR}", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert '#error "define HPMOE_L0A_BYTES, ' in done.stderr


def test_the_definitions_of_the_cpp_tests_are_those_of_the_machine():
    text = (Path(__file__).parent / "ascend_a3.h").read_text()
    definitions = memory_definitions(load_machine("ascend-a3")).splitlines()[1:]
    assert [line for line in text.splitlines() if "_BYTES" in line] == definitions


def loose_numbers(text: str) -> Iterator[str]:
    """Statements that use a number above 8 which no constant names.

    A statement that defines a constant names its numbers. Halves of a 64-bit word are 32 bits.
    """
    text = re.sub(r"//[^\n]*|\"[^\"\n]*\"|^#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"(<<|>>) 32\b|\b0xFFFFFFFF\b", "", text)
    for statement in re.split(r"[;{}]", text):
        if re.search(r"\bconstexpr \w+ k\w+\s*=|^\s*kWord\w+ =", statement):
            continue
        numbers = re.findall(r"(?<![\w.])(?:0x[0-9A-Fa-f]+|\d+)(?![\w.])", statement)
        if any(int(number, 0) > 8 for number in numbers):
            yield " ".join(statement.split())


@pytest.mark.parametrize(
    "header", [h for h in HEADERS if h.name != "machine.h"], ids=lambda h: h.stem
)
def test_numbers_in_headers_have_names(header: Path):
    assert list(loose_numbers(header.read_text())) == []


def test_a_number_without_a_name_is_noticed():
    text = """
    constexpr uint32_t kPiece = 64 * 1024;  // 64 KB
    const uint32_t aligned = RoundUp(n, 16);
    const uint64_t both = high << 32;
    """
    assert list(loose_numbers(text)) == ["const uint32_t aligned = RoundUp(n, 16)"]
