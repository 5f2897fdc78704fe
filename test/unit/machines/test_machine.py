"""Machine descriptions: what they say, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.machines.machine import (
    MACHINE_DIR,
    MachineError,
    Variant,
    load_machine,
    machine_names,
)
from hpmoe_ir.machines.numbers import UNITS, Number
from hpmoe_ir.machines.rates import RANGES, RATE_NAMES, RATE_UNITS

TEXT = (MACHINE_DIR / "ascend-a3.toml").read_text()


@pytest.mark.parametrize("name", machine_names())
def test_descriptions_of_the_package(name: str):
    machine = load_machine(name)
    assert machine.name == name
    assert machine.aiv_cores == 2 * machine.aic_cores == machine.cores(CoreKind.AIV)
    assert machine.cores(CoreKind.AIC) == machine.aic_cores
    assert machine.l1_usable < machine.l1_bytes
    assert machine.ub_usable < machine.ub_bytes
    assert machine.counter_line == 64


def test_a_file_of_ones_own(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\nbase = "ascend-a3"\n'
        '[cores]\naic = { value = 3, unit = "cores", source = "a drawing" }\n'
        '[latency]\npoll = { value = 1e-6, unit = "s", low = 0, high = 2e-6, source = "a guess" }\n'
    )
    machine, base = load_machine(str(path)), load_machine("ascend-a3")
    assert (machine.name, machine.arch) == ("mine", base.arch)
    assert (machine.aic_cores, machine.aiv_cores) == (3, 6)
    assert machine.rates == replace(base.rates, latency_poll=1e-6)
    assert machine.numbers["latency.poll"] == Number(1e-6, "s", "a guess", 0, 2e-6)
    assert not machine.numbers["cores.aic"].uncertain
    assert machine.digest != base.digest


def test_every_rate_is_described_and_has_a_unit():
    machine = load_machine("ascend-a3")
    for name, attribute in RATE_NAMES.items():
        assert machine.numbers[name].value == getattr(machine.rates, attribute)
        assert machine.numbers[name].source
    assert set(machine.numbers) == set(UNITS)


def test_rates_can_be_varied():
    machine = load_machine("ascend-a3")
    slow = machine.with_rate("shared_bandwidth.link_out", 1e11)
    assert slow.rates.shared_bandwidth_link_out == 1e11
    assert slow.numbers["shared_bandwidth.link_out"].value == 1e11
    assert slow.rates.shared_bandwidth_link_in == machine.rates.shared_bandwidth_link_in
    with pytest.raises(MachineError, match=r"no rate 'latency\.pol'; did you mean 'latency\.poll'"):
        machine.with_rate("latency.pol", 1.0)


L0A = 'l0a = { value = 65536, unit = "bytes", source = "toolkit, on-chip memories of dav-2201" }'
POLL = "poll = { value = 6e-07"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            L0A,
            "",
            '[memory] l0a: expected { value, unit = "bytes", source }, found None',
        ),
        (
            L0A,
            "l0a = 65536",
            '[memory] l0a: expected { value, unit = "bytes", source }, found 65536',
        ),
        (
            "l0a = { value = 65536",
            "l0a = { value = 0",
            "[memory] l0a: value: expected a positive number, found 0",
        ),
        (
            "l0a = { value = 65536",
            "l0a = { value = 1.5",
            "[memory] l0a: expected a positive whole number, found 1.5",
        ),
        (
            "l0a = { value = 65536",
            'l0a = { value = "64K"',
            "[memory] l0a: value: expected a positive number, found '64K'",
        ),
        (
            "l0a = { value = 65536",
            "l0a = { value = true",
            "[memory] l0a: value: expected a positive number, found True",
        ),
        (
            POLL,
            "poll = { value = -1",
            "[latency] poll: value: expected a number of at least 0, found -1",
        ),
        (
            POLL,
            "poll = { value = 6e-3",
            "[latency] poll: value: expected 3e-07 to 1e-06, found 0.006",
        ),
        (
            'poll = { value = 6e-07, unit = "s"',
            'poll = { value = 6e-07, unit = "us"',
            '[latency] poll: unit: expected "s", found "us"',
        ),
        (
            'poll = { value = 6e-07, unit = "s", low = 3e-07,',
            'poll = { value = 6e-07, unit = "s",',
            "[latency] poll: expected both low and high, or neither",
        ),
        (
            POLL,
            "poll = { vale = 1, value = 6e-07",
            "[latency] poll: unknown field 'vale'; did you mean 'value'?",
        ),
        (
            "l0a = { value",
            "l0aa = { value",
            "[memory] l0aa: unknown number; did you mean 'l0a'?",
        ),
        ("[limits]", "[limit]", "[limit]: unknown section; did you mean 'limits'?"),
        ('name = "ascend-a3"', "name = 3", "name: expected a string, found 3"),
        ('arch = "dav-2201"', "", "arch: expected a string, found None"),
        (
            'arch = "dav-2201"',
            'arch = "dav-2201"\nbase = "mine.toml"',
            "base: expected one of ascend-a2, ascend-a3, found 'mine.toml'",
        ),
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


def with_number(tmp_path: Path, section: str, key: str, value: object, unit: str) -> Path:
    """The file of a machine that differs from ascend-a3 in one number."""
    path = tmp_path / "mine.toml"
    number = f'{key} = {{ value = {value}, unit = "{unit}", source = "a question" }}'
    path.write_text(f'name = "mine"\nbase = "ascend-a3"\n[{section}]\n{number}\n')
    return path


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("latency.poll", "0.2", "0 to 0.1, found 0.2"),
        ("core_bandwidth.gm_to_ub", "1e-9", "1e+06 to 1e+18, found 1e-09"),
        ("clock.frequency", "1.8", "1e+06 to 1e+12, found 1.8"),
        ("matrix.l1_to_l0a", "0.5", "1 to 1e+06, found 0.5"),
        ("matrix.queue_depth", "1.5", "a whole number from 1 to 1e+06, found 1.5"),
        ("dma.granule", "1e9", "a whole number from 1 to 65536, found 1000000000.0"),
        ("l2.line", "16", "a whole number from 32 to 65536, found 16"),
    ],
)
def test_a_rate_that_no_chip_has_is_refused(name: str, value: str, expected: str, tmp_path: Path):
    """The clocks of the CPU model would run for ever, or divide by 0."""
    section, _, key = name.partition(".")
    path = with_number(tmp_path, section, key, value, RATE_UNITS[name])
    with pytest.raises(MachineError) as error:
        load_machine(str(path))
    assert str(error.value) == f"mine.toml: [{section}] {key}: value: expected {expected}"


@pytest.mark.parametrize("name", [*RATE_NAMES])
def test_all_rates_of_a_range_are_taken(name: str, tmp_path: Path):
    section, _, key = name.partition(".")
    unit = RATE_UNITS[name]
    for end in RANGES.get(name, RANGES[unit]):
        machine = load_machine(str(with_number(tmp_path, section, key, end, unit)))
        assert getattr(machine.rates, RATE_NAMES[name]) == end


@pytest.mark.parametrize(
    ("section", "key", "value", "unit", "message"),
    [
        ("memory", "l1_reserved", 287, "bytes", "expected 288 to 524287, less than l1, found 287"),
        ("memory", "l1_reserved", 524288, "bytes", "expected 288 to 524287, less than l1, found"),
        ("memory", "ub", 4096, "bytes", "[memory] ub_reserved: expected 288 to 4095, less than ub"),
        ("memory", "ub", 2**22, "bytes", "expected at most 2097152, found 4194304"),
        ("memory", "l1", 2**25, "bytes", "expected at most 16777216, found 33554432"),
        ("memory", "hbm", 0, "bytes", "value: expected a positive number, found 0"),
        ("limits", "queue_points", 2**25, "tasks", "expected at most 16777216, found 33554432"),
        ("limits", "families", 257, "families", "expected at most 256, found 257"),
        ("limits", "direct_ranks", 1.5, "ranks", "expected a positive whole number, found 1.5"),
    ],
)
def test_a_size_that_the_code_cannot_have_is_refused(
    section: str, key: str, value: float, unit: str, message: str, tmp_path: Path
):
    path = with_number(tmp_path, section, key, value, unit)
    with pytest.raises(MachineError) as error:
        load_machine(str(path))
    assert message in str(error.value)
    assert str(error.value).startswith(f"mine.toml: [{section}] ")


def test_device_memory_and_reach_may_be_left_out(tmp_path: Path):
    path = tmp_path / "mine.toml"
    lines = TEXT.splitlines(keepends=True)
    kept = [n for n in lines if not n.startswith(("hbm = { value = 6", "direct_ranks"))]
    assert len(kept) == len(lines) - 2
    path.write_text("".join(kept))
    machine = load_machine(str(path))
    assert (machine.hbm_bytes, machine.direct_ranks) == (None, None)


def test_whole_data_blocks_are_usable(tmp_path: Path):
    machine = load_machine(str(with_number(tmp_path, "memory", "ub", 9216 + 100, "bytes")))
    assert machine.ub_usable == 96


def test_links_follow_the_number_of_ranks():
    """Nominal by topology, or as measured; between points linearly, beyond them not at all."""
    mesh = load_machine("ascend-a2")
    assert [mesh.for_ranks(n).rates.shared_bandwidth_link_out for n in (2, 4, 8)] == [
        pytest.approx(28e9 * links) for links in (1, 3, 7)
    ]
    nominal, measured = load_machine("ascend-a3"), load_machine("ascend-a3:measured")
    for ranks in (2, 8, 64, 768):
        assert nominal.for_ranks(ranks).rates == nominal.rates
    points = {p.ranks: p for p in measured.numbers["shared_bandwidth.link_in"].measured}
    assert list(points) == [8, 16, 32, 64, 128]
    assert all(p.low <= p.value <= p.high <= 196e9 for p in points.values())
    for ranks, point in points.items():
        for direction in ("out", "in"):
            found = measured.for_ranks(ranks)
            assert getattr(found.rates, f"shared_bandwidth_link_{direction}") == point.value
            number = found.link_number(f"shared_bandwidth.link_{direction}", ranks)
            assert (number.value, number.low, number.high) == (point.value, point.low, point.high)
    assert measured.for_ranks(4).rates == measured.for_ranks(8).rates
    assert measured.for_ranks(768).rates == measured.for_ranks(128).rates
    between = measured.for_ranks(24).rates.shared_bandwidth_link_out
    assert between == pytest.approx((points[16].value + points[32].value) / 2)
    other = replace(measured.for_ranks(64).rates, shared_bandwidth_link_out=196e9)
    assert replace(other, shared_bandwidth_link_in=196e9) == nominal.rates
    # A rate that is given holds on any number of ranks.
    fixed = measured.with_rate("shared_bandwidth.link_out", 1e11).for_ranks(64)
    assert fixed.rates.shared_bandwidth_link_out == 1e11
    assert fixed.rates.shared_bandwidth_link_in == points[64].value


def test_variants_of_a_machine(tmp_path: Path):
    base = load_machine("ascend-a3")
    both = load_machine("ascend-a3:same-address:measured")
    assert both.reference == both.name == "ascend-a3:measured:same-address"
    assert both.variants == (Variant.MEASURED, Variant.SAME_ADDRESS)
    assert both.digest == base.digest
    slow = load_machine("ascend-a3:same-address").rates
    assert slow == replace(
        base.rates,
        core_bandwidth_gm_to_ub=base.rates.core_bandwidth_gm_to_ub / 1.64,
        core_bandwidth_gm_to_l1=base.rates.core_bandwidth_gm_to_l1 / 1.26,
    )
    # Of a file; its path may have colons.
    path = tmp_path / "a:b.toml"
    path.write_text('name = "mine"\nbase = "ascend-a3"\n')
    mine = load_machine(f"{path}:measured")
    assert (mine.name, mine.reference) == ("mine:measured", f"{path}:measured")
    assert mine.for_ranks(64).rates == load_machine("ascend-a3:measured").for_ranks(64).rates
    assert load_machine(str(path)).rates == base.rates


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (
            "ascend-a3:measure",
            "unknown variant 'measure' of machine 'ascend-a3'; known: measured, same-address; did "
            "you mean 'measured'?",
        ),
        ("ascend-a3:", "unknown variant '' of machine 'ascend-a3'; known: measured, same-address"),
        (
            "ascend-a2:measured",
            "machine 'ascend-a2': no measured links: [shared_bandwidth] link_in has no list "
            "`measured`",
        ),
        (
            "LINKS:measured",
            "machine 'mine': no measured links: [shared_bandwidth] link_out has no list `measured`",
        ),
        (
            "BARE:same-address",
            "machine 'ascend-a3': reads of the same address: no number [same_address] gm_to_ub",
        ),
    ],
)
def test_variants_that_a_machine_does_not_have(reference: str, message: str, tmp_path: Path):
    links = with_number(tmp_path, "shared_bandwidth", "link_out", 1e11, "bytes/s")
    bare = tmp_path / "bare.toml"
    bare.write_text(TEXT.partition("[same_address]")[0])
    reference = reference.replace("LINKS", str(links)).replace("BARE", str(bare))
    with pytest.raises(MachineError) as error:
        load_machine(reference)
    assert str(error.value) == message


POINT = "{ ranks = 16, value = 9.66e+10, low = 9.66e+10, high = 1.003e+11 }"


@pytest.mark.parametrize(
    ("point", "message"),
    [
        ("{ ranks = 8, value = 9e+10 }", "ranks: expected at least 9, ascending, found 8"),
        ("{ ranks = 16.5, value = 9e+10 }", "ranks: expected at least 9, ascending, found 16.5"),
        ("{ ranks = 16 }", "measured, 16 ranks: value: expected a positive number, found None"),
        (
            "{ ranks = 16, value = 9, low = 8, high = 9 }",
            "measured, 16 ranks: value: expected 1e+06 to 1e+18, found 9",
        ),
        (
            "{ ranks = 16, value = 9e10, low = 8e10 }",
            "measured, 16 ranks: expected both low and high, or neither",
        ),
        (
            "{ ranks = 16, value = 9e10, low = 1e10, high = 2e10 }",
            "measured, 16 ranks: value: expected 10000000000.0 to 20000000000.0, found 9",
        ),
        ("{ rank = 16, value = 9e10 }", "measured: unknown field 'rank'; did you mean 'ranks'?"),
        ("16", "measured: expected a list of { ranks, value, low, high }, found [{"),
    ],
)
def test_a_curve_that_is_none(point: str, message: str, tmp_path: Path):
    path = tmp_path / "mine.toml"
    assert TEXT.count(POINT) == 2
    path.write_text(TEXT.replace(POINT, point, 1))
    with pytest.raises(MachineError) as error:
        load_machine(str(path))
    assert str(error.value).startswith("mine.toml: [shared_bandwidth] link_out: ")
    assert message in str(error.value)


def test_only_links_have_a_curve(tmp_path: Path):
    path = tmp_path / "mine.toml"
    path.write_text(
        TEXT.replace("poll = { value = 6e-07,", "poll = { measured = [], value = 6e-07,")
    )
    with pytest.raises(MachineError, match=r"\[latency\] poll: unknown field 'measured'"):
        load_machine(str(path))


def test_loads_into_l1_are_as_fast_as_a_public_sample():
    """Its loads fill half of L1 by two, 64 and 128 KB: 156 GB/s a core, 3.75 TB/s on 24 cores.

    The start of each load is in what was measured; the description has it apart.
    """
    machine = load_machine("ascend-a3")
    rates, size = machine.rates, 96 * 1024
    start = rates.dma_gm_to_l1_start / rates.clock_frequency
    core = size / (size / rates.core_bandwidth_gm_to_l1 + start)
    assert core == pytest.approx(156e9, rel=0.01)
    assert machine.aic_cores * core == pytest.approx(3.75e12, rel=0.01)
    assert machine.aic_cores * core < rates.shared_bandwidth_l2


def test_lanes_fill_the_link_at_the_low_end_of_a_core(tmp_path: Path):
    """Programs are made for the slowest core that the range allows, and of links as they are."""
    nominal, measured = load_machine("ascend-a3"), load_machine("ascend-a3:measured")
    assert nominal.for_ranks(64).link_lanes == 49  # 196 over 4
    assert measured.for_ranks(64).link_lanes == 23  # 89.6 over 4
    slow = load_machine(str(with_number(tmp_path, "core_bandwidth", "link", 4e9, "bytes/s")))
    assert slow.link_lanes == nominal.link_lanes
    fast = load_machine(str(with_number(tmp_path, "core_bandwidth", "link", 2e10, "bytes/s")))
    assert fast.link_lanes == 10
    assert nominal.with_rate("core_bandwidth.link", 2e9).link_lanes == 98
