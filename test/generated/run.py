"""Runs many generated cases, spread over processes, and tells what failed and how to repeat it."""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import get_context
from multiprocessing.queues import Queue
from pathlib import Path

from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings

from generated.cases import Case
from generated.levels import check
from generated.strategies import batches
from hpmoe_ir.runtime.cpu_build import build_engine


@dataclass
class Report:
    """What a run of cases came to."""

    cases: dict[str, str] = field(default_factory=dict[str, str])
    """Texts of the cases that agreed, with their kind."""
    sources: set[Path] = field(default_factory=set[Path])
    elements: int = 0
    largest_ratio: float = 0.0
    seconds: float = 0.0
    failures: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """The smallest failing case, as text, and what is wrong with it; none if all agreed."""

    def merge(self, other: Report) -> None:
        """Adds another run; a case that both have counts once."""
        self.cases |= other.cases
        self.sources |= other.sources
        self.elements += other.elements
        self.largest_ratio = max(self.largest_ratio, other.largest_ratio)
        self.failures += other.failures

    @property
    def kinds(self) -> Counter[str]:
        """How many cases of each kind."""
        return Counter(self.cases.values())

    def lines(self) -> list[str]:
        """The report for people."""
        kinds = [f"  {count:>6} {kind}" for kind, count in sorted(self.kinds.items())]
        return [
            f"{len(self.cases)} cases agree at all levels, {self.seconds:.0f} s, "
            f"{len(self.failures)} fail",
            *kinds,
            f"{len(self.sources)} device sources, {self.elements} elements compared, largest error "
            f"{self.largest_ratio:.2f} of the tolerance",
        ]


@dataclass(frozen=True)
class _Message:
    """From a process that runs cases: one that agreed, or the failure that ends it."""

    case: str
    kind: str = ""
    sources: tuple[Path, ...] = ()
    elements: int = 0
    ratio: float = 0.0
    failure: str = ""


SHRINK_SECONDS = 60.0
"""Time to look for a smaller failing case, from the first on."""


class _Enough(BaseException):
    """Ends the search for a smaller failing case."""


def _work(queue: Queue[_Message | None], count: int, number: int, shrink: bool) -> None:
    """Runs `count` cases of the seed `number`, and shrinks the first that fails."""
    smallest: list[tuple[str, str]] = []
    until, left = 0.0, count

    def all_of(batch: list[Case]) -> None:
        for case in batch:
            one(case)

    def one(case: Case) -> None:
        nonlocal left, until
        text = case.text()
        if (until and time.monotonic() > until) or left == 0:
            raise _Enough
        try:
            agreed = check(case)
        except Exception as e:
            until = until or time.monotonic() + (SHRINK_SECONDS if shrink else 0.0)
            if not smallest or len(text) <= len(smallest[0][0]):
                lines = "".join(traceback.format_exception(e, limit=-3))
                smallest[:] = [(text, f"{type(e).__name__}: {e}\n{lines}")]
            raise
        if until:
            return
        left -= 1
        queue.put(
            _Message(text, agreed.kind, agreed.sources, agreed.elements, agreed.largest_ratio)
        )

    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    configured = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=[
            HealthCheck.too_slow,
            HealthCheck.data_too_large,
            HealthCheck.large_base_example,
        ],
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        print_blob=False,
    )
    try:
        seed(number)(configured(given(batches())(all_of)))()
    except _Enough:
        if smallest:
            queue.put(_Message(smallest[0][0], failure=smallest[0][1]))
    except BaseException as e:
        text, failure = smallest[0] if smallest else ("", f"{type(e).__name__}: {e}")
        queue.put(_Message(text, failure=failure))
    queue.put(None)


def run_cases(
    count: int,
    first_seed: int,
    processes: int,
    progress: Callable[[Report], None] = lambda _: None,
    shrink: bool = True,
) -> Report:
    """Runs `count` cases in `processes` processes with seeds of their own from `first_seed` on.

    Stops at the first failure.
    """
    start = time.perf_counter()
    build_engine()  # once, not in each process
    context = get_context("fork")
    queue: Queue[_Message | None] = context.Queue()
    shares = [count // processes + (i < count % processes) for i in range(processes)]
    workers = [
        context.Process(target=_work, args=(queue, share, first_seed + i, shrink), daemon=True)
        for i, share in enumerate(shares)
    ]
    for worker in workers:
        worker.start()
    report = Report()
    for message in _messages(queue, processes):
        if message.failure:
            report.failures.append((message.case, message.failure))
        elif message.case not in report.cases:
            report.cases[message.case] = message.kind
            report.sources.update(message.sources)
            report.elements += message.elements
            report.largest_ratio = max(report.largest_ratio, message.ratio)
        report.seconds = time.perf_counter() - start
        progress(report)
        if report.failures:
            for worker in workers:
                worker.terminate()
            break
    for worker in workers:
        worker.join()
    return report


def _messages(queue: Queue[_Message | None], left: int) -> Iterator[_Message]:
    """All that `left` processes say, until each has ended."""
    while left:
        message = queue.get()
        if message is None:
            left -= 1
        else:
            yield message
