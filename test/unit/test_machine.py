"""Machine descriptions: what they say, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpmoe_ir.machine import MACHINE_DIR, MachineError, load_machine, machine_names

TEXT = (MACHINE_DIR / "ascend-a3.toml").read_text()


@pytest.mark.parametrize("name", machine_names())
def test_descriptions_of_the_package(name: str):
    machine = load_machine(name)
    assert machine.name == name
    assert machine.aiv_cores == 2 * machine.aic_cores == machine.cores("aiv")
    assert machine.cores("aic") == machine.aic_cores
    assert machine.l1_usable < machine.l1_bytes
    assert machine.ub_usable < machine.ub_bytes
    assert machine.counter_line == 64


def test_a_file_of_ones_own(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(TEXT.replace('"ascend-a3"', '"mine"').replace("aic = 24", "aic = 3"))
    machine = load_machine(str(path))
    assert (machine.name, machine.aic_cores, machine.aiv_cores) == ("mine", 3, 6)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("aic = 24", "", "[cores] aic: expected a positive integer, found None"),
        ("aic = 24", "aic = 0", "[cores] aic: expected a positive integer, found 0"),
        (
            "aic = 24",
            "aic = true",
            "[cores] aic: expected a positive integer, found True",
        ),
        (
            "l0a = 65536",
            'l0a = "64K"',
            "[memory] l0a: expected a positive integer, found '64K'",
        ),
        ('name = "ascend-a3"', "name = 3", "name: expected a string, found 3"),
        ('arch = "dav-2201"', "", "arch: expected a string, found None"),
    ],
)
def test_descriptions_that_do_not_say_what_they_must(
    tmp_path: Path, old: str, new: str, message: str
):
    path = tmp_path / "mine.toml"
    assert old in TEXT
    path.write_text(TEXT.replace(old, new))
    with pytest.raises(MachineError) as error:
        load_machine(str(path))
    assert str(error.value) == f"mine.toml: {message}"


def test_a_file_that_is_no_toml(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text("cores: 24")
    with pytest.raises(MachineError, match=r"^mine\.toml: not a TOML file: "):
        load_machine(str(path))


@pytest.mark.parametrize(
    ("name", "hint"),
    [("ascend-a33", "; did you mean 'ascend-a3'?"), ("gpu", ""), ("no-such-file.toml", "")],
)
def test_unknown_machines(name: str, hint: str):
    with pytest.raises(MachineError) as error:
        load_machine(name)
    assert str(error.value) == f"unknown machine '{name}'; known: ascend-a2, ascend-a3{hint}"
