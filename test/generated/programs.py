"""Generated tile programs through queues to code: how often is a right one refused?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from generated.cases import machine_file
from generated.tile_programs import TileProgram, rows_of, tile_program
from hpmoe_ir.dialects import queue, tile
from hpmoe_ir.dialects.tile import buffer_type, buffers_of
from hpmoe_ir.driver.compiler import compile_program, module_text
from hpmoe_ir.dtypes import from_bits, to_bits
from hpmoe_ir.interpreter.tasks import ProgramRun
from hpmoe_ir.interpreter.values import Array
from hpmoe_ir.lowering.targets import code_target
from hpmoe_ir.passes.allocate_events import AllocateEventsPass
from hpmoe_ir.passes.analysis.dependence import Granularity
from hpmoe_ir.passes.assign_queues import AssignQueuesPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass
from hpmoe_ir.passes.plan_memory import PlanMemoryPass
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.policy import Policy
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass
from hpmoe_ir.run.execution import RankInputs, Raw, build_program, run_program
from hpmoe_ir.runtime.cpu_build import build_engine
from hpmoe_ir.runtime.device_fault import DeviceFault


@dataclass(frozen=True)
class Verdict:
    """What became of one program."""

    seed: int
    families: int
    refused: str = ""
    """Why `verify-queues` refuses it."""
    alarm: str = ""
    """What the CPU model reports."""
    wrong: str = ""
    """A result that is not the expected one."""


@dataclass
class Rates:
    """Verdicts on many programs."""

    verdicts: list[Verdict] = field(default_factory=list[Verdict])

    def failed(self) -> list[Verdict]:
        """Verdicts that are not in order."""
        return [v for v in self.verdicts if v.refused or v.alarm or v.wrong]

    def lines(self) -> list[str]:
        """The rates, and each program that is refused."""
        count = len(self.verdicts)
        refused = sum(bool(v.refused) for v in self.verdicts)
        alarms = sum(bool(v.alarm) for v in self.verdicts)
        wrong = sum(bool(v.wrong) for v in self.verdicts)
        lines = [
            f"{count} programs, {sum(v.families for v in self.verdicts)} families of tasks",
            f"{refused} refused by verify-queues ({100 * refused / max(1, count):.1f} %)",
            f"{alarms} reported by the CPU model ({100 * alarms / max(1, count):.1f} %)",
            f"{wrong} with wrong results",
        ]
        for v in self.failed():
            lines.append(f"seed {v.seed}: {v.refused or v.alarm or v.wrong}")
        return lines


@dataclass(frozen=True)
class Plan:
    """How a program is brought to queues."""

    granularity: Granularity
    elide: bool
    reuse: bool
    rotate: bool
    policy: Policy
    cores: int

    @staticmethod
    def of(seed: int) -> Plan:
        """The plan of a seed."""
        random = np.random.default_rng([seed, 0x706C616E])
        flags = [bool(n < 0.5) for n in random.random(4)]
        return Plan(
            "expert" if flags[0] else "part",
            flags[1],
            flags[2],
            flags[3],
            # Depth-first orders experts; it may refuse what does not follow them.
            OperatorOrder(),
            int(random.integers(1, 4)),  # pyright: ignore[reportUnknownMemberType]
        )

    def apply(self, module: ModuleOp) -> None:
        """Adds dependences and memory; `queues` adds the rest."""
        InsertDependenciesPass(granularity=self.granularity).apply(Context(), module)
        if self.elide:
            ElideDependenciesPass().apply(Context(), module)
        PlanMemoryPass(reuse=self.reuse).apply(Context(), module)

    def queues(self, module: ModuleOp) -> None:
        """Makes queues of it."""
        AssignQueuesPass(
            policy=self.policy, rotate=self.rotate, machine=machine_file(self.cores)
        ).apply(Context(), module)
        AllocateEventsPass().apply(Context(), module)
        module.verify()


Outputs = list[list[dict[str, Array]]]


def judge(seed: int, most_families: int = 99) -> Verdict:
    """Runs the program of a seed at all its levels, against plain NumPy."""
    program = tile_program(seed, most_families)
    plan = Plan.of(seed)
    families = len(tile.families_of(_program(program.module)))
    launches = program.launches()
    expected = [program.expected(inputs) for inputs in launches]

    def differs(what: str, found: Outputs) -> str:
        return _difference(program, what, expected, found)

    wrong = differs("tile, as it stands", _numpy(program, launches, seed))
    plan.apply(program.module)
    wrong = wrong or differs("tile", _numpy(program, launches, seed))
    plan.queues(program.module)
    try:
        VerifyQueuesPass().apply(Context(), program.module)
    except DiagnosticException as e:
        return Verdict(seed, families, refused=str(e))
    wrong = wrong or differs("queue", _numpy(program, launches, seed))
    try:
        wrong = wrong or differs("code", _code(program, launches, seed))
    except DeviceFault as e:
        return Verdict(seed, families, alarm=str(e))
    return Verdict(seed, families, wrong=wrong)


def _program(module: ModuleOp) -> tile.ProgramOp | queue.ProgramOp:
    (program,) = module.ops
    assert isinstance(program, tile.ProgramOp | queue.ProgramOp)
    return program


def _numpy(
    program: TileProgram, launches: Sequence[Sequence[Mapping[str, Array]]], seed: int
) -> Outputs:
    run = ProgramRun(_program(program.module), seed)
    return [run.launch(inputs) for inputs in launches]


def _code(
    program: TileProgram, launches: Sequence[Sequence[Mapping[str, Array]]], seed: int
) -> Outputs:
    kernel = compile_program(program.module, code_target())
    executable = build_program(kernel.program, kernel.source, quick=True)

    def inputs_of(by_name: Mapping[str, Array], rank: int) -> RankInputs:
        tokens = 1 if program.tokens is None else program.tokens.counts[rank]
        raw: dict[str, Raw] = {
            n: v if v.dtype == np.int32 else to_bits(v, "bf16") for n, v in by_name.items()
        }
        return RankInputs(raw, tokens)

    runs = [[inputs_of(v, rank) for rank, v in enumerate(launch)] for launch in launches]
    results = run_program(kernel.program, executable, kernel.table, runs, seed)
    return [
        [
            {name: from_bits(by_name[name], "bf16") for name, _ in program.outputs}
            for by_name in launch
        ]
        for launch in results
    ]


def _difference(program: TileProgram, what: str, expected: Outputs, found: Outputs) -> str:
    buffers = buffers_of(_program(program.module))
    for n, (launch, other) in enumerate(zip(expected, found, strict=True), start=1):
        for rank, (a, b) in enumerate(zip(launch, other, strict=True)):
            for name, rows in program.outputs:
                count = rows_of(program, rank, rows, buffer_type(buffers[name]).dims[0])
                x, y = a[name][:count], b[name][:count]
                if x.shape != y.shape or not (x == y).all():
                    at = np.argwhere(x != y)[0].tolist() if x.shape == y.shape else x.shape
                    return f"{what}: launch {n}, rank {rank}: {name} is wrong at {at}"
    return ""


def judge_many(
    count: int, first: int, processes: int, progress: Callable[[int], None] = lambda _: None
) -> Rates:
    """Verdicts on the programs of `count` seeds from `first` on."""
    rates = Rates()
    build_engine()  # once, not in each process
    with get_context("fork").Pool(processes) as pool:
        for verdict in pool.imap_unordered(judge, range(first, first + count)):
            rates.verdicts.append(verdict)
            progress(len(rates.verdicts))
    rates.verdicts.sort(key=lambda v: v.seed)
    return rates


def program_text(seed: int) -> str:
    """The text of a program, before it has dependences."""
    return module_text(tile_program(seed).module)
