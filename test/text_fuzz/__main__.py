"""`python -m text_fuzz`: many mutated inputs, what went wrong, how many of each kind."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection, wait
from pathlib import Path

from text_fuzz.kinds import KINDS, make_case
from text_fuzz.seeds import Seeds, build_kernel, collect
from text_fuzz.watch import SECONDS, Case, Ending, limit_memory, run_apart, run_forked, run_here

ASLEEP = 300.0
"""Seconds without any work after which a case counts as one that waits for ever."""


def main() -> int:
    """Runs the cases; the status is 1 where one of them went wrong."""
    parser = argparse.ArgumentParser("text_fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cases", type=int, default=10000, metavar="N")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first")
    parser.add_argument("--kind", choices=[*KINDS], default="", help="only cases of this kind")
    parser.add_argument("--without", nargs="*", default=[], help="kinds to leave out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--apart", type=int, default=200, metavar="N",
                        help="every N-th case also runs as a console script")  # fmt: skip
    parser.add_argument("--show", type=int, metavar="CASE", help="shows one case, and runs it")
    args = parser.parse_args()
    seeds = collect()
    if not {"table", "simulate"} <= {*args.without}:
        build_kernel(seeds)
    if args.show is not None:
        return show(seeds, args.seed, args.show, args.kind)
    print(f"seed {args.seed}, cases {args.first} to {args.first + args.cases - 1}", flush=True)
    start = time.perf_counter()
    numbers = range(args.first, args.first + args.cases)
    with tempfile.TemporaryDirectory(prefix="text-fuzz-") as directory:
        # Processes that are killed leave their folders to it.
        tempfile.tempdir = directory
        wrong, counts, refused = run_all(seeds, args, numbers)
        tempfile.tempdir = None
    seconds = time.perf_counter() - start
    kinds = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
    total = sum(counts.values())
    print(f"{total} cases, {refused} refused ({kinds}), {seconds:.0f} s, {total / seconds:.0f}/s")
    print(f"{wrong} cases went wrong")
    return 1 if wrong else 0


def run_all(
    seeds: Seeds, args: argparse.Namespace, numbers: range
) -> tuple[int, Counter[str], int]:
    """Runs the cases in worker processes; ends and replaces those that no signal reaches."""
    workers: dict[Connection, Worker] = {}
    for job in range(args.jobs):
        worker = Worker(seeds, args, list(numbers[job :: args.jobs]))
        workers[worker.reports] = worker
    wrong, refused, counts = 0, 0, Counter[str]()
    seen: set[str] = set()
    while workers:
        for connection in wait(list(workers), timeout=1.0):
            worker = workers[connection]  # pyright: ignore[reportArgumentType]
            try:
                number, kind, status, problems = worker.reports.recv()
            except EOFError:
                del workers[worker.reports]
                if worker.numbers:
                    problems = [f"the process ended with status {worker.ended()}"]
                    number, kind, status = worker.numbers[0], "?", None
                    again = Worker(seeds, args, worker.numbers[1:])
                    workers[again.reports] = again
                else:
                    continue
            else:
                worker.done(number)
            if kind == "-":
                continue
            counts[kind] += 1
            refused += status == 1
            wrong += bool(problems)
            for problem in problems:
                key = "\n".join(problem.splitlines()[:3])
                short = f"{problem.splitlines()[0][:90]} (as before)" if key in seen else problem
                seen.add(key)
                print(f"case {number} ({kind}): {short}", flush=True)
        for worker in list(workers.values()):
            if problem := worker.hang():
                print(f"case {worker.numbers[0]}: hang: {problem}", flush=True)
                worker.process.kill()
    return wrong, counts, refused


class Worker:
    """A process that runs cases and reports each."""

    def __init__(self, seeds: Seeds, args: argparse.Namespace, numbers: list[int]):
        context = multiprocessing.get_context("fork")
        self.numbers = numbers
        self.work_before = self.work = 0.0
        self.changed = time.monotonic()
        self.reports, sender = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(seeds, args, numbers, sender))
        self.process.start()
        sender.close()

    def done(self, number: int) -> None:
        """Notes that a case has ended."""
        assert self.numbers[0] == number, "cases end in their order"
        self.numbers = self.numbers[1:]
        self.work_before = self.work

    def hang(self) -> str:
        """What is wrong with how long the case takes: counted in work, since a machine under load
        is slow; or seconds in which there was none at all."""
        if not self.process.is_alive():
            return ""
        work, now = processor_seconds(self.process.pid), time.monotonic()
        if work != self.work:
            self.work, self.changed = work, now
        if self.work - self.work_before > 8 * SECONDS:
            return "no signal reaches it"
        return f"asleep for {ASLEEP:g} s" if now - self.changed > ASLEEP else ""

    def ended(self) -> int | None:
        """The exit status of the process."""
        self.process.join()
        return self.process.exitcode


def processor_seconds(pid: int | None) -> float:
    """Processor time of a process and of its children that have ended, in seconds."""
    try:
        # The name, in parentheses, may hold blanks; utime is the twelfth field after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _work(seeds: Seeds, args: argparse.Namespace, numbers: list[int], sender: Connection) -> None:
    limit_memory()
    with tempfile.TemporaryDirectory(prefix="text-fuzz-") as name:
        directory = Path(name)
        for number in numbers:
            case = make_case(seeds, args.seed, number, args.kind)
            if case.kind in args.without:
                sender.send((number, "-", None, []))
                continue
            ending = run(case, directory)
            if args.apart and number % args.apart == 0:
                ending.problems += compare(ending, run_apart(case, directory))
            sender.send((number, case.kind, ending.status, ending.problems))


def run(case: Case, directory: Path) -> Ending:
    """Runs a case in this process, or in a copy of it where it would leave traces."""
    return (run_forked if case.path or case.kind == "table" else run_here)(case, directory)


def compare(here: Ending, apart: Ending) -> list[str]:
    """What is wrong with a console script, or other than in this process."""
    if not apart.problems and not here.problems and here.status != apart.status:
        return [f"status {here.status} here, {apart.status} as a console script: {apart.stderr}"]
    return [f"as a console script: {problem}" for problem in apart.problems]


def show(seeds: Seeds, seed: int, number: int, kind: str) -> int:
    """Shows a case and how it ends."""
    case = make_case(seeds, seed, number, kind)
    print(f"case {number}: {case.kind}, {case.origin}")
    for name, data in case.files.items():
        if len(case.files) < 8 or name in ("dir/manifest.json",):
            print(f"--- {name}")
            sys.stdout.flush()
            sys.stdout.buffer.write(data[:20000] + b"\n")
    print(f"--- {case.tool} {' '.join(case.args)[:2000]}")
    with tempfile.TemporaryDirectory(prefix="text-fuzz-") as directory:
        limit_memory()
        ending = run(case, Path(directory))
    print(f"status {ending.status}\n{ending.stderr[:3000]}")
    for problem in ending.problems:
        print(problem)
    return 1 if ending.problems else 0


if __name__ == "__main__":
    sys.exit(main())
