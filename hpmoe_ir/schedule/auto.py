"""Schedule `auto`: selects the fastest of a few candidate pipelines on the timing model.

Each candidate is an ordinary pipeline in the syntax of `hpmoe-opt -p`, compiled and timed as any
other (docs/timing.md). The candidates that may be the fastest are timed under one condition, the
best of them under several (`hpmoe_ir.schedule.conditions`), and the one with the least expected
time is taken.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import fmean

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, PassError, Progress, compile_module
from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.layer.routing import IdArray
from hpmoe_ir.passes.analysis.pass_kinds import expanded, is_check
from hpmoe_ir.run.execution import ExecutionError, build_program
from hpmoe_ir.runtime.cpu_build import CompileError, CompilerMissing
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.schedule.candidates import Layer, Passes
from hpmoe_ir.schedule.conditions import Condition
from hpmoe_ir.schedule.estimate import least_us
from hpmoe_ir.schedule.named import is_serial
from hpmoe_ir.timing.bounds import Bounds, bounds
from hpmoe_ir.timing.mirrored import simulate_mirrored
from hpmoe_ir.timing.serial_stages import launched_stages
from hpmoe_ir.timing.timed_run import RankIntegers, ids_of, simulate

UNTIMED = (DeviceFault, CompileError, ExecutionError)
"""Exceptions by which one kernel can't be timed, although others may be."""

MOST_TIMED = 8
"""Most candidates that are timed; `auto_candidates` has the most promising ones first."""

MOST_COMPARED = 2
"""Most candidates that are timed under all conditions."""

COMPARED_WITHIN = 1.05
"""Largest ratio to the fastest of the candidates that are timed under all conditions."""


class NoCandidateError(InputError):
    """No candidate can be used."""

    def __init__(self, why: str, refused_by_passes: bool) -> None:
        super().__init__(f"--schedule: auto: no candidate can be used: {why}")
        self.refused_by_passes = refused_by_passes
        """Whether passes refused all, so that none could be timed."""


@dataclass(frozen=True)
class TimedKernel:
    """Simulated time and bounds of one direction of a candidate."""

    time_us: float
    bounds: Bounds


@dataclass(frozen=True)
class Candidate:
    """A pipeline with its simulated times, or the reason why there are none."""

    passes: Passes
    timed: tuple[tuple[TimedKernel, ...], ...] = ()
    """Times and bounds under the first conditions; for each one those of each direction, forward
    first. Empty for a pipeline that can't be used or was not timed."""
    refused: str = ""
    """Why the pipeline can't be used."""
    least_us: float = 0.0
    """The lower estimate by which a pipeline was not timed."""

    @property
    def text(self) -> str:
        """The pipeline in the syntax of `hpmoe-opt -p`."""
        return pipeline_text(self.passes)

    @property
    def kernels(self) -> tuple[TimedKernel, ...]:
        """Times and bounds of each direction under the first condition."""
        return self.timed[0] if self.timed else ()

    @property
    def times_us(self) -> tuple[float, ...]:
        """Total time of all directions under each condition, in microseconds."""
        return tuple(sum(k.time_us for k in kernels) for kernels in self.timed)

    @property
    def time_us(self) -> float:
        """Expected time, the mean over the conditions; infinite if there are no times."""
        return fmean(self.times_us) if self.timed else float("inf")

    @property
    def over_bound(self) -> float:
        """Ratio of time to the largest bound under the first condition, summed over directions."""
        return self.times_us[0] / sum(k.bounds.bound_us for k in self.kernels)


def choose(
    layer: Layer, pipelines: Sequence[Passes], progress: Progress = lambda _: None
) -> list[Candidate]:
    """Returns the candidates sorted, the one with the least expected time first.

    First come those that were timed under all conditions, then those under the first one only, by
    their times; ties keep their order. A pipeline is not timed if its lower estimate is above the
    time of another, or if `MOST_TIMED` were. Compilation and timed runs overlap, and identical
    kernels are timed once. Only the chosen candidate is checked by `verify-queues`; if it is
    rejected, the next one is. Raises NoCandidateError if no candidate can be used, InputError if a
    routing does not fit the layer.
    """
    ids = {condition: condition.ids(layer.config) for condition in layer.conditions}
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        timing = _Timing(layer, pool, ids)
        found = list(timing.timed(pipelines, progress))
    found.sort(key=lambda c: (not c.timed, -len(c.timed), c.time_us))
    while found and found[0].kernels:
        try:
            _compiled(layer, found[0].passes)
            return found
        except PassError as e:
            found = [*found[1:], Candidate(found[0].passes, refused=e.message)]
    why = next((c.refused for c in found if c.refused), "there is none")
    raise NoCandidateError(why, not timing.known)


def evaluate(layer: Layer, passes: Passes) -> Candidate:
    """Compiles a pipeline and times each direction under each condition of the layer.

    Raises InputError if a routing does not fit the layer or no compiler is installed.
    """
    try:
        compiled = _compiled(layer, passes)
        timed = tuple(
            tuple(
                _timed(layer, condition, condition.ids(layer.config), kernel, passes)
                for kernel in compiled.kernels.values()
            )
            for condition in layer.conditions
        )
    except (PassError, *UNTIMED) as e:
        return Candidate(passes, refused=str(e))
    return Candidate(passes, timed)


class _Timing:
    """Compiles candidates and times their kernels in a pool, without `verify-queues`."""

    def __init__(
        self,
        layer: Layer,
        pool: ThreadPoolExecutor,
        ids: dict[Condition, list[IdArray]],
    ) -> None:
        self.layer, self.pool, self.ids = layer, pool, ids
        self.known: dict[tuple[Condition, str, bytes, str], Future[TimedKernel]] = {}

    def timed(self, pipelines: Sequence[Passes], progress: Progress) -> Iterator[Candidate]:
        """Yields the candidates, those that may be the fastest with their times."""
        first, *others = self.layer.conditions
        found: list[tuple[Candidate, list[CompiledKernel]]] = []
        fastest, count = float("inf"), 0
        waiting: list[tuple[Passes, list[CompiledKernel]]] = []

        def settle() -> None:
            nonlocal fastest
            for passes, kernels in waiting:
                candidate = self._under(Candidate(passes), kernels, first)
                fastest = min(fastest, candidate.time_us)
                found.append((candidate, kernels))
            waiting.clear()

        for i, passes in enumerate(pipelines, 1):
            least = least_us(self.layer, passes, self.ids[first])
            if least >= fastest or count >= MOST_TIMED:
                yield Candidate(passes, least_us=least)
                continue
            progress(f"candidate {i} of {len(pipelines)}")
            try:
                kernels = list(_compiled(self.layer, passes, verify=False).kernels.values())
            except PassError as e:
                yield Candidate(passes, refused=e.message)
                continue
            count += 1
            self._start(passes, kernels, first)
            waiting.append((passes, kernels))
            if len(waiting) == 2 * (os.cpu_count() or 1) or fastest == float("inf"):
                settle()
        settle()
        progress("comparing the best")
        found.sort(key=lambda entry: entry[0].time_us)
        near = [c for c in found if c[0].time_us <= COMPARED_WITHIN * fastest][:MOST_COMPARED]
        compared = near if len(near) > 1 else []
        for candidate, kernels in compared:
            for condition in others:
                self._start(candidate.passes, kernels, condition)
        for candidate, kernels in compared:
            for condition in others:
                candidate = self._under(candidate, kernels, condition)
            yield candidate
        yield from (candidate for candidate, _ in found[len(compared) :])

    def _start(self, passes: Passes, kernels: list[CompiledKernel], condition: Condition) -> None:
        for kernel in kernels:
            key = condition, kernel.source, kernel.table, _launched(passes)
            if key not in self.known:
                self.known[key] = self.pool.submit(
                    _timed, self.layer, condition, self.ids[condition], kernel, passes
                )

    def _under(
        self, candidate: Candidate, kernels: list[CompiledKernel], condition: Condition
    ) -> Candidate:
        """Returns the candidate with its times under one more condition, once they are known."""
        launched = _launched(candidate.passes)
        try:
            timed = tuple(
                self.known[condition, kernel.source, kernel.table, launched].result()
                for kernel in kernels
            )
        except UNTIMED as e:
            return Candidate(candidate.passes, refused=str(e))
        return replace(candidate, timed=(*candidate.timed, timed))


def _launched(passes: Passes) -> str:
    """Returns what besides the code decides how the host launches it: the policy, if operators."""
    return pipeline_text(passes) if is_serial(passes) else ""


def _compiled(layer: Layer, passes: Passes, *, verify: bool = True) -> Compiled:
    """Compiles a candidate in all directions; `verify=False` omits passes that only check."""
    lowering = [single for single in expanded(passes) if verify or not is_check(single)]
    return compile_module(layer.ctx, layer.graph, lowering, backward=layer.backward)


def _timed(
    layer: Layer,
    condition: Condition,
    ids: Sequence[IdArray],
    kernel: CompiledKernel,
    passes: Passes,
) -> TimedKernel:
    """Times a kernel. Raises one of UNTIMED for this kernel, InputError without a compiler."""
    try:
        executable = build_program(kernel.program, kernel.source)
    except CompilerMissing as e:
        raise InputError(str(e)) from e
    name = ids_of(kernel.program)
    ranks = [RankIntegers({name: part}, len(part)) for part in ids]
    run = simulate_mirrored if condition.symmetric else simulate
    stages = launched_stages(kernel.program.op, passes)
    machine = condition.machine(layer.machine)
    timeline = run(kernel.program, executable, kernel.table, ranks, machine, stages)
    return TimedKernel(timeline.time_us, bounds(timeline, ranks))


def candidate_lines(candidates: Sequence[Candidate]) -> list[str]:
    """Formats candidates, one a line: times, and their ratios to the largest bounds.

    The times are those under the first condition, of each direction. Candidates that were not timed
    are counted.
    """
    lines: list[str] = []
    for candidate in candidates:
        if candidate.refused:
            lines.append(f"  {'refused':>16}  {candidate.text}: {candidate.refused}")
        if not candidate.kernels:
            continue
        names = ", ".join(dict.fromkeys(k.bounds.largest for k in candidate.kernels))
        times = " + ".join(f"{k.time_us:.0f}" for k in candidate.kernels)
        lines.append(f"  {times:>13} us  {candidate.over_bound:.3f} of {names}  {candidate.text}")
    untimed = [c.least_us for c in candidates if not c.timed and not c.refused]
    if untimed:
        lines.append(f"  {len(untimed)} others: not timed, at least {min(untimed):.0f} us each")
    return lines


def expected_lines(conditions: Sequence[Condition], candidates: Sequence[Candidate]) -> list[str]:
    """Formats the expected time of the candidates that were timed under all conditions, and the
    spread of the chosen one: its time under each condition, beside the best of the others."""
    compared = [c for c in candidates if len(c.timed) == len(conditions) > 1]
    if len(compared) < 2:
        return []
    best = compared[0]
    lines = [
        f"{'expected':<9} {best.time_us:.0f} us, {min(best.times_us):.0f} to "
        f"{max(best.times_us):.0f}; next {compared[1].time_us:.0f} us"
    ]
    for i, condition in enumerate(conditions):
        least = min(c.times_us[i] for c in compared)
        lines.append(
            f"  {best.times_us[i]:>13.0f} us  {best.times_us[i] / least:.3f} of the best  "
            f"{condition.text}"
        )
    return lines
