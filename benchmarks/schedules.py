"""All schedules compared on the timing model, as plain-text tables.

    python benchmarks/schedules.py --date YYYY-MM-DD [--section NAME ...] [--ranks N,...]
        [--schedule NAME,...] [--direction forward|backward|both] [--results FILE]

Prints for each section what was run, and a table; docs/benchmarks-schedules-tables.txt has the
result. Each timed run is kept in a file: when the command is stopped and called again, it goes on
where it was, unless the package has changed. All sections on 8, 16, 32 and 64 ranks take an hour or
more; sections, ranks and schedules can be chosen.
The same options give the same bytes, but for the section `cost`, which measures seconds.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from schedule_sections import SECTIONS
from section import Options, Section
from timed_cases import SEED, Case, Runs

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.layer.config import LayerConfig, LayerError
from hpmoe_ir.machines.machine import MachineError
from hpmoe_ir.options.machine import DEFAULT_MACHINE
from hpmoe_ir.run.execution import ExecutionError
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.schedule.named import SCHEDULE_NAMES, schedule_names
from hpmoe_ir.schedule.remembered import source_digest
from hpmoe_ir.tools.layer_options import several
from hpmoe_ir.tools.progress import Progress

WIDTH = 100
"""Characters of a line of text."""

BAR = 20
"""Characters of the progress bar."""


def timed(runs: Runs, sections: Sequence[Section]) -> None:
    """Times the cases without a stored result, grouped by program."""
    cases = dict.fromkeys(case for section in sections for case in section.cases)
    programs = list(dict.fromkeys(case.program for case in cases))
    todo = sorted(
        (c for c in cases if not runs.is_known(c)), key=lambda c: programs.index(c.program)
    )
    with Progress() as progress:
        for i, case in enumerate(todo):
            done = len(cases) - len(todo) + i
            part = done * BAR // len(cases)
            progress.prefix = f"[{'#' * part}{'.' * (BAR - part)}] {done + 1} of {len(cases)}: "
            progress(_short(case))
            runs.of(case)


def _short(case: Case) -> str:
    return f"{case.preset}, {case.ranks} ranks, {case.schedule}, {case.direction}, {case.routing}"


def page_lines(args: argparse.Namespace, runs: Runs, sections: Sequence[Section]) -> list[str]:
    """The whole page."""
    made = (
        f"{args.date}, machine {runs.machine.name}, SHA-256 of its description "
        f"{runs.machine.digest}, of the package's sources {source_digest()}, seed {SEED} of the "
        "routings."
    )
    layer = f"Layer: {_layer(runs.layer(args.preset, args.ranks[0]))}."
    lines = [*textwrap.wrap(made, WIDTH), "", *textwrap.wrap(layer, WIDTH)]
    for section in sections:
        rule = "-" * len(section.title)
        text = textwrap.wrap(section.text, WIDTH, break_on_hyphens=False)
        lines += ["", section.title, rule, "", *text, "", *section.table(runs.of)]
    return lines


def _layer(config: LayerConfig) -> str:
    """The sizes that do not depend on the number of ranks."""
    return (
        f"{config.name}, hidden {config.hidden}, expert width {config.width}, top {config.top_k} "
        f"of {config.experts} experts, {config.tokens} tokens a rank, {config.dtype}"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="compare all schedules on the timing model")
    parser.add_argument("--date", required=True, metavar="YYYY-MM-DD", help="written on the page")
    parser.add_argument("--section", action="append", choices=SECTIONS, help="all by default")
    parser.add_argument("--preset", default="deepseek-v3")
    parser.add_argument("--models", default="deepseek-v3,qwen3-235b-a22b,mixtral-8x7b")
    parser.add_argument("--ranks", default="8,16,32,64")
    parser.add_argument("--tokens", type=int, help="of each rank, instead of the layer's own")
    parser.add_argument("--schedule", default=",".join(SCHEDULE_NAMES))
    parser.add_argument("--direction", choices=("forward", "backward", "both"), default="both")
    parser.add_argument("--best", default="auto", help="beside published in sensitivity, cost")
    parser.add_argument("--machine", default=DEFAULT_MACHINE)
    parser.add_argument("--results", type=Path, default=Path("build/schedules.jsonl"))
    return parser


def main() -> None:
    """Prints the page."""
    args = _parser().parse_args()
    try:
        args.ranks = [int(part) for part in several("ranks", args.ranks)]
        chosen = several("schedule", args.schedule)
        for name in (*chosen, args.best):
            if name not in schedule_names():
                known = ", ".join(schedule_names())
                raise InputError(f"--schedule: expected some of {known}, found '{name}'")
        runs = Runs(args.machine, args.tokens, args.results)
        directions = ("forward", "backward") if args.direction == "both" else (args.direction,)
        options = Options(
            preset=args.preset,
            models=several("models", args.models),
            ranks=args.ranks,
            directions=directions,
            schedules=chosen,
            best=args.best,
            machine=runs.machine,
        )
        sections = [SECTIONS[name](options) for name in args.section or SECTIONS]
        timed(runs, sections)
        lines = page_lines(args, runs, sections)
    except (InputError, LayerError, MachineError, ValueError, ExecutionError, DeviceFault) as e:
        sys.exit(f"error: {e}")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
