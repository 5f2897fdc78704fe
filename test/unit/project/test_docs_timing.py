"""The pages about machines and timing say what is there."""

from __future__ import annotations

import re
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from hpmoe_ir.driver.compiler import compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.layer.routing import generate_routing, parse_routing
from hpmoe_ir.machines.machine import MACHINE_DIR, load_machine, machine_names
from hpmoe_ir.machines.numbers import UNITS, Number
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.timing.bounds import bounds
from hpmoe_ir.timing.timed_run import RankIntegers, simulate

DOCS = Path(__file__).parents[3] / "docs"


def blocks(page: str, kind: str) -> list[str]:
    """Contents of the fenced blocks of a kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)


def machine_list() -> str:
    """An item for each number: its values, by machine where they differ, and its last source."""
    machines = [load_machine(name) for name in machine_names()]
    lines: list[str] = []
    for key, unit in UNITS.items():
        values = {machine.name: shown(machine.numbers[key], unit) for machine in machines}
        *_, value = values.values()
        if len(set(values.values())) > 1:
            value = ", ".join(f"{own} on {name}" for name, own in values.items())
        last = machines[-1].numbers[key]
        item = f"- `{key}`: {value}; {last.source}"
        if last.measured:
            item += f"; measured on numbers of ranks: {last.measured_source}"
        lines += textwrap.wrap(item, 100, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def shown(number: Number, unit: str) -> str:
    value = f"{number.value:g} {unit}"
    return f"{value} ({number.low:g} to {number.high:g})" if number.uncertain else value


def test_machines(tmp_path: Path):
    page = (DOCS / "machines.md").read_text()
    assert page.endswith(machine_list()), f"the list is now\n{machine_list()}"
    number, own = blocks(page, "toml")
    described = tomllib.loads((MACHINE_DIR / "ascend-a3.toml").read_text())
    ((section, numbers),) = tomllib.loads(number).items()
    assert numbers.items() <= described[section].items()
    path = tmp_path / "own.toml"
    path.write_text(own)
    machine, base = load_machine(str(path)), load_machine("ascend-a3")
    changed = {key for key in UNITS if machine.numbers[key] != base.numbers[key]}
    assert changed == {"shared_bandwidth.link_out", "shared_bandwidth.link_in"}
    assert 'machine.with_rate("latency.poll", 1e-6)' in page
    assert machine.with_rate("latency.poll", 1e-6).rates.latency_poll == 1e-6


def test_timing():
    page = (DOCS / "timing.md").read_text()
    (code,) = blocks(page, "python")
    config = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2, tokens=16)
    kernel = compile_module(make_context(), layer_module(config), LowerMoePass()).forward
    routing = [r.ids for r in generate_routing(parse_routing("balanced"), config, [16] * 2, 0)]
    names: dict[str, Any] = {
        "simulate": simulate,
        "bounds": bounds,
        "RankIntegers": RankIntegers,
        "program": kernel.program,
        "executable": build_program(kernel.program, kernel.source),
        "table": kernel.table,
        "routing": routing,
    }
    exec(compile(code, "timing.md", "exec"), names)
    assert names["timeline"].time_us > bounds(names["timeline"], names["ranks"]).bound_us
