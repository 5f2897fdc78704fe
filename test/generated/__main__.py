"""`python -m generated`: many generated cases, or one again."""

from __future__ import annotations

import argparse
import os
import random
import shlex
import sys
import time

from generated.cases import case_of
from generated.function_levels import Disagreement
from generated.levels import check
from generated.machines import description, drawn_numbers, judge_machines
from generated.programs import judge_many, program_text
from generated.run import Report, run_cases
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.runtime.device_fault import DeviceFault


def main() -> int:
    """Runs the command; the status is 0 only where every level agreed."""
    parser = argparse.ArgumentParser(prog="python -m generated", description=__doc__)
    commands = parser.add_subparsers(required=True)
    levels = commands.add_parser("levels", help="run generated graphs at all levels")
    levels.add_argument("--cases", type=int, default=1000)
    levels.add_argument("--seed", type=int, help="drawn and printed unless given")
    levels.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    levels.set_defaults(run=run_levels)
    programs = commands.add_parser(
        "programs", help="how often verify-queues and the detectors refuse tile programs"
    )
    programs.add_argument("--count", type=int, default=500)
    programs.add_argument("--first", type=int, default=0, help="seed of the first program")
    programs.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    programs.add_argument("--text", action="store_true", help="print the first program, run none")
    programs.set_defaults(run=run_programs)
    machines = commands.add_parser(
        "machines", help="run a small layer on drawn machines, or have them refused"
    )
    machines.add_argument("--count", type=int, default=200)
    machines.add_argument("--first", type=int, default=0, help="number of the first machine")
    machines.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    machines.set_defaults(run=run_machines)
    replay = commands.add_parser("replay", help="run one case again, from the text of a failure")
    replay.add_argument("case")
    replay.set_defaults(run=run_again)
    args = parser.parse_args()
    return args.run(args)


LEAST = 8
"""Cases of one process in a round."""


def run_levels(args: argparse.Namespace) -> int:
    """Runs cases until there are as many that differ from each other, or a few more."""
    seed = random.randrange(2**31) if args.seed is None else args.seed
    print(f"seed {seed}", flush=True)
    total = Report()
    rounds = 0
    start = time.perf_counter()
    while len(total.cases) < args.cases and not total.failures:
        # The first cases of a seed are the smallest ones, the same for every seed.
        count = max(args.cases - len(total.cases), LEAST * args.processes)
        total.merge(
            run_cases(count, seed + rounds * args.processes, args.processes, Progress(total))
        )
        rounds += 1
    total.seconds = time.perf_counter() - start
    for line in total.lines():
        print(line)
    for case, failure in total.failures:
        print(f"\n{case_of(case).summary() if case else 'no case'}\n{failure}")
        if case:
            print(f"again: {sys.executable} -m generated replay {shlex.quote(case)}")
    return 1 if total.failures else 0


class Progress:
    """Says now and then how far a run is, on standard error."""

    def __init__(self, before: Report) -> None:
        self.before = len(before.cases)
        self.next = 0.0

    def __call__(self, report: Report) -> None:
        if report.seconds >= self.next:
            self.next = report.seconds + 10
            count = self.before + len(report.cases)
            print(f"{count} cases, {report.seconds:.0f} s", file=sys.stderr, flush=True)


def run_programs(args: argparse.Namespace) -> int:
    """Runs tile programs; the status is 0 where none is refused or wrong."""
    if args.text:
        print(program_text(args.first), end="")
        return 0
    start = time.perf_counter()

    def progress(count: int) -> None:
        if count % 25 == 0:
            seconds = time.perf_counter() - start
            print(f"{count} programs, {seconds:.0f} s", file=sys.stderr, flush=True)

    rates = judge_many(args.count, args.first, args.processes, progress)
    for line in rates.lines():
        print(line)
    return 1 if rates.failed() else 0


def run_machines(args: argparse.Namespace) -> int:
    """Judges drawn machines; the status is 0 where each runs right or is refused."""
    start = time.perf_counter()

    def progress(count: int) -> None:
        if count % 10 == 0:
            seconds = time.perf_counter() - start
            print(f"{count} machines, {seconds:.0f} s", file=sys.stderr, flush=True)

    report = judge_machines(args.count, args.first, args.processes, progress)
    for line in report.lines():
        print(line)
    for number, failure in report.failures.items():
        print(f"\n{description(number, drawn_numbers(number))}{failure}")
        print(f"again: {sys.executable} -m generated machines --first {number} --count 1")
    return 1 if report.failures else 0


def run_again(args: argparse.Namespace) -> int:
    """Runs one case."""
    case = case_of(args.case)
    print(case.summary())
    try:
        agreed = check(case)
    except (Disagreement, InputError, DeviceFault) as e:
        print(e)
        return 1
    print(f"{agreed.kind}: {agreed.elements} elements, {agreed.largest_ratio:.2f} of the tolerance")
    return 0


if __name__ == "__main__":
    sys.exit(main())
