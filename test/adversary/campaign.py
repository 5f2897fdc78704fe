"""Many programs, each asked of the proof and of the judge: where do the two disagree?"""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from multiprocessing import get_context

from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from adversary.accesses import OutsideContract
from adversary.bases import layer_base, tile_base
from adversary.changes import MUTATIONS
from adversary.judge import MANY, Verdict, judge
from adversary.machine import read_once, small_machine
from adversary.micro_programs import micro_program
from adversary.reduce import reduced
from hpmoe_ir.diagnostics import InvalidOpError, one_line
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.driver.compiler import module_text
from hpmoe_ir.passes.verify_queues import verify_queues

BLOCK = 50
"""Programs of a block: those that are made by the compiler have one layer and one tile program to
start from."""

SOURCES = {"micro": 0.55, "layer": 0.25, "tiles": 0.2}
"""Shares of the programs."""

MOST_TRIES = 60
"""Changes of one start that may be refused before the proof is asked."""

REASONS = (
    ("deadlock", "cannot end"),
    ("count", "has threshold"),
    ("order of shared memory", "shares memory with"),
    ("use of shared memory", "uses both at the same time"),
    ("order", "may start before that has ended"),
    ("one family", "nothing orders them"),
    (
        "unwritten",
        r"no task writes|no family before it writes|of which tasks write|rows of the launch",
    ),
    ("overwritten in the next launch", r"may (write|read) .* in launch n"),
    ("counted in the next launch", "may count"),
    ("counters", r"cache line|counters \d+ to"),
    ("capacity", r"holds \d+|capacity"),
    ("in place", "expects operands"),
    ("scatter", "scatter"),
    ("tiles", r"kernel '\w+': expected"),
)
"""Reasons of refusals, by what their messages say."""


def reason_of(message: str) -> str:
    """Returns the kind of a refusal."""
    for reason, pattern in REASONS:
        if re.search(pattern, message):
            return reason
    return re.sub(r"@\w+|\d+|'[^']*'", "_", message)[:60]


@dataclass(frozen=True)
class Disagreement:
    """A program on which the proof and the judge disagree."""

    name: str
    """Seed, block and place of the program, which `--show` takes."""
    changes: tuple[str, ...]
    proof: str
    """The refusal; empty if the proof accepts."""
    verdict: Verdict
    text: str


@dataclass
class Tally:
    """What became of many programs."""

    programs: Counter[str] = field(default_factory=Counter[str])
    """By source."""
    no_program: Counter[str] = field(default_factory=Counter[str])
    """Changes that leave no program: the verifiers of the ops or the lowering refuse them."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """(what the proof says, what the judge says)."""
    harms: Counter[str] = field(default_factory=Counter[str])
    """Kinds of harm of refused programs."""
    reasons: Counter[str] = field(default_factory=Counter[str])
    """Reasons for which harmless programs are refused."""
    accepted_harmful: list[Disagreement] = field(default_factory=list[Disagreement])
    refused_harmless: list[Disagreement] = field(default_factory=list[Disagreement])
    seconds: float = 0.0
    seconds_of: dict[str, float] = field(default_factory=lambda: {"proof": 0.0, "judge": 0.0})
    """Of all processes, by who was asked."""

    def merge(self, other: Tally) -> None:
        """Adds the programs of another tally."""
        self.programs += other.programs
        self.no_program += other.no_program
        self.outcomes += other.outcomes
        self.harms += other.harms
        self.reasons += other.reasons
        self.accepted_harmful += other.accepted_harmful
        self.refused_harmless += other.refused_harmless
        for who, seconds in other.seconds_of.items():
            self.seconds_of[who] += seconds

    @property
    def count(self) -> int:
        """Number of programs."""
        return sum(self.programs.values())

    @property
    def refused_share(self) -> float:
        """Share of the harmless programs that the proof refuses."""
        harmless = sum(n for (_, judged), n in self.outcomes.items() if judged == "harmless")
        return self.outcomes["refused", "harmless"] / max(1, harmless)

    def lines(self) -> Iterator[str]:
        """Yields the report."""
        yield f"{self.count} programs: " + _listed(self.programs)
        yield ", ".join(f"{who}: {seconds:.0f} s" for who, seconds in self.seconds_of.items())
        yield "changes that left no program: " + _listed(self.no_program)
        for proof in ("accepted", "refused"):
            for judged in ("harmless", "harmful"):
                yield f"  {proof}, {judged}: {self.outcomes[proof, judged]}"
        yield "harms of refused programs: " + _listed(self.harms)
        yield f"refused of the harmless: {100 * self.refused_share:.2f} %"
        total = max(1, sum(self.reasons.values()))
        for reason, n in self.reasons.most_common():
            yield f"  {reason}: {n} ({100 * n / total:.1f} %)"
        for found in self.accepted_harmful:
            yield f"ACCEPTED {found.name}: {found.verdict.text} [{', '.join(found.changes)}]"


def _listed(counter: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in counter.most_common()) or "none"


def program_of(module: ModuleOp) -> ProgramOp:
    """Returns the only program of a module."""
    (program,) = module.ops
    assert isinstance(program, ProgramOp)
    return program


def block_programs(seed: int, block: int) -> Iterator[tuple[str, str, ModuleOp, random.Random]]:
    """Yields name, source and start of each program of a block, and what draws its changes."""
    starts: dict[str, ModuleOp] = {}
    for place in range(BLOCK):
        name = f"{seed}/{block}/{place}"
        chance = random.Random(f"program {name}")
        source = chance.choices(list(SOURCES), list(SOURCES.values()))[0]
        if source == "micro":
            module = micro_program(chance.randrange(1 << 40))
        else:
            if source not in starts:
                make = layer_base if source == "layer" else tile_base
                starts[source] = make(random.Random(f"start {seed} {block}").randrange(1 << 30))
            module = starts[source]
        yield name, source, module, chance


def changed(
    start: ModuleOp, source: str, chance: random.Random, tally: Tally
) -> tuple[ModuleOp, tuple[str, ...], str]:
    """Returns a program made from a start by none to three changes, their names, and a refusal.

    The refusal is that of the verifiers of the ops for what is a matter of memory, which they share
    with the proof; what breaks another of their rules is no program.
    """
    for _ in range(MOST_TRIES):
        module = start.clone()
        names: list[str] = []
        for _ in range(chance.choices((0, 1, 2, 3), (3 if source == "micro" else 1, 6, 2, 1))[0]):
            mutation = chance.choice(MUTATIONS)
            if mutation(program_of(module), chance):
                names.append(mutation.__name__)
        try:
            module.verify()
        except DiagnosticException as e:
            if refusal := _about_memory(e):
                return module, tuple(names), refusal
            tally.no_program["refused by a verifier of ops"] += 1
            continue
        return module, tuple(names), ""
    raise AssertionError("no change leaves a program")


def _about_memory(error: BaseException | None) -> str:
    """Returns the message of the InvalidOpError that an error comes from, empty if from none."""
    while error is not None:
        if isinstance(error, InvalidOpError):
            return one_line(str(error))
        error = error.__cause__ or error.__context__
    return ""


@dataclass(frozen=True)
class Asked:
    """A program, and what the proof and the judge say of it."""

    name: str
    source: str
    changes: tuple[str, ...]
    module: ModuleOp
    refusal: str
    """Empty if the proof accepts."""
    by_ops: bool
    """Whether the verifiers of the ops refuse it."""
    verdict: Verdict

    @property
    def found(self) -> bool:
        """Whether a harmful program is refused."""
        return bool(self.refusal) and self.verdict.harmful

    def disagreement(self) -> Disagreement:
        """The program as text."""
        text = module_text(self.module)
        return Disagreement(self.name, self.changes, self.refusal, self.verdict, text)


def ask_block(seed: int, block: int, tally: Tally) -> Iterator[Asked]:
    """Asks the proof and the judge about the programs of a block; counts what is no program."""
    for name, source, start, chance in block_programs(seed, block):
        while True:
            module, changes, refusal = changed(start, source, chance, tally)
            judge_seed = chance.randrange(1 << 30)
            began = time.perf_counter()
            try:
                verdict = judge(program_of(module), judge_seed)
                break
            except OutsideContract:
                tally.no_program["puts of rows of others"] += 1
        judged = time.perf_counter()
        by_ops = bool(refusal)
        refusal = refusal or proof_of(program_of(module))
        tally.seconds_of["proof"] += time.perf_counter() - judged
        tally.seconds_of["judge"] += judged - began
        if refusal and not verdict.harmful:
            # Perhaps the routings were too few.
            try:
                verdict = judge(program_of(module), judge_seed + 1, MANY)
            except OutsideContract as e:
                verdict = Verdict("tiles", str(e))
        yield Asked(name, source, changes, module, refusal, by_ops, verdict)


def counted(programs: Iterator[Asked], tally: Tally) -> Iterator[Asked]:
    """Yields the programs and counts what the proof and the judge say of them."""
    for asked in programs:
        refusal, verdict = asked.refusal, asked.verdict
        tally.programs[asked.source] += 1
        tally.outcomes[
            "refused" if refusal else "accepted", "harmful" if verdict.harmful else "harmless"
        ] += 1
        if refusal and verdict.harmful:
            tally.harms[verdict.kind] += 1
        elif refusal:
            tally.reasons[reason_of(refusal)] += 1
            tally.refused_harmless.append(asked.disagreement())
        elif verdict.harmful:
            tally.accepted_harmful.append(_reduced(asked).disagreement())
        yield asked


def ask(asked: Asked, seed: int) -> Asked | None:
    """Asks about the module of `asked`; None if it does not verify."""
    try:
        asked.module.verify()
        verdict = judge(program_of(asked.module), seed, MANY)
    except (DiagnosticException, OutsideContract, LookupError):
        return None
    return replace(asked, refusal=proof_of(program_of(asked.module)), verdict=verdict)


def _is_accepted_harmful(asked: Asked) -> bool:
    other = ask(asked, 0)
    return other is not None and other.verdict.harmful and not other.refusal


def _reduced(asked: Asked) -> Asked:
    def is_wrong(module: ModuleOp) -> bool:
        return _is_accepted_harmful(replace(asked, module=module))

    return replace(asked, module=reduced(asked.module, is_wrong))


def run_block(seed: int, block: int) -> Tally:
    """Counts what the proof and the judge say of the programs of a block."""
    tally = Tally()
    for _ in counted(ask_block(seed, block, tally), tally):
        pass
    return tally


def proof_of(program: ProgramOp) -> str:
    """Returns the refusal of `verify-queues`, empty if it accepts."""
    try:
        verify_queues(program)
    except DiagnosticException as e:
        return one_line(str(e))
    return ""


def _run_block(job: tuple[int, int]) -> Tally:
    return run_block(*job)


def run_campaign(
    programs: int, seed: int, jobs: int, progress: Callable[[Tally], None] = lambda _: None
) -> Tally:
    """Asks about `programs` programs, rounded up to whole blocks, in `jobs` processes."""
    total = Tally()
    began = time.perf_counter()
    blocks = [(seed, block) for block in range(-(-programs // BLOCK))]
    small_machine()  # one file for all processes
    read_once()
    with get_context("fork").Pool(jobs) as pool:
        for tally in pool.imap_unordered(_run_block, blocks):
            total.merge(tally)
            total.seconds = time.perf_counter() - began
            progress(total)
    for found in (total.accepted_harmful, total.refused_harmless):
        found.sort(key=lambda d: tuple(map(int, d.name.split("/"))))
    return total
