"""Asks one watcher after the other about a mutant."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from xdsl.utils.exceptions import DiagnosticException, VerifyException

from hpmoe_ir.diagnostics import one_line
from hpmoe_ir.dialects.queue import ProgramOp
from hpmoe_ir.driver.compiler import compile_program
from hpmoe_ir.lowering.targets import code_target
from hpmoe_ir.output import write_file
from hpmoe_ir.passes.verify_queues import verify_queues
from hpmoe_ir.run.execution import DEVICE_INCLUDE, kernel_entry, run_program
from hpmoe_ir.runtime.cpu_build import CompileError, build, cache_dir
from hpmoe_ir.runtime.cpu_model import MEMORY_MODELS, MemoryModel
from hpmoe_ir.runtime.device_fault import DeviceFault
from mutants.mutant import Change, Code, Notice, Outcome, Watcher
from mutants.needed_order import Needs, find_needs
from mutants.starts import LAUNCHES, STARTS, Program, program_op
from mutants.task_graph import TaskGraph, build_graph, certain_orders

SEEDS = 20
"""Orders of the cores in which a mutant is run that nothing has noticed yet."""

SEEDS_OF_MANY = 8
"""The same from 4 ranks on, where a run takes longer and has more cores out of step."""

REFUSED_SEEDS = 3
"""The same for what `verify-queues` refuses: would the detectors have noticed it too?"""

EARLY_SEEDS = 4
"""Orders with lines that enter data caches early."""

BUILT_STARTS = tuple(s for s in STARTS if s.ranks == 2 and s.policy == "depth-first")
"""Where this is asked also of mutants whose source must be built for it."""


def judge_change(start: Program, id: str, change: Change) -> Outcome:
    """What becomes of a change of the queue program."""
    module = start.module.clone()
    program = program_op(module)
    change.apply(program)
    try:
        module.verify()
    except (VerifyException, DiagnosticException) as e:
        return Outcome(id, change.what, _refused(Watcher.OPS, e), None)
    harm = find_harm(program)
    static = None
    try:
        verify_queues(program)
    except DiagnosticException as e:
        static = _refused(Watcher.QUEUES, e)
    try:
        kernel = compile_program(module, code_target())
        code = Code(kernel.program, kernel.source, kernel.table, DEVICE_INCLUDE)
    except DiagnosticException as e:
        return Outcome(id, change.what, static or _refused(Watcher.LOWERING, e), None, harm)
    if static is None:
        return Outcome(id, change.what, static, run_code(start, code), harm)
    if code.source != start.kernel.source and start.start not in BUILT_STARTS:
        return Outcome(id, change.what, static, None, harm)
    return Outcome(id, change.what, static, run_code(start, code, REFUSED_SEEDS), harm)


def _refused(watcher: Watcher, error: Exception) -> Notice:
    return Notice(watcher, "", one_line(str(error)))


def run_code(start: Program, code: Code, seeds: int | None = None) -> Notice:
    """Runs the code in several orders, until something is wrong.

    Every other order with weak memory: what is written becomes visible late, and in any order. The
    last ones with lines that enter data caches early.
    """
    directory = cache_dir() / "sources"
    directory.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(code.source.encode()).hexdigest()[:16]
    path = directory / f"{code.program.name}-{digest}.cpp"
    write_file(path, code.source.encode())
    try:
        executable = build(path, kernel_entry(code.program), [code.include])
    except CompileError as e:
        return Notice(Watcher.LOWERING, "compiler", one_line(str(e)))
    if seeds is None:
        seeds = SEEDS if start.start.ranks < 4 else SEEDS_OF_MANY
    models: list[MemoryModel] = [MEMORY_MODELS[seed % 2] for seed in range(seeds)]
    for _ in range(EARLY_SEEDS):
        models.append("early")
    for seed, memory in enumerate(models):
        try:
            found = run_program(
                code.program, executable, code.table, start.inputs, seed, memory=memory
            )
        except DeviceFault as e:
            return Notice(Watcher.DETECTOR, e.kind, e.message, seed)
        for launch, (by_rank, expected) in enumerate(zip(found, start.expected, strict=True), 1):
            for rank, (one, other) in enumerate(zip(by_rank, expected, strict=True)):
                for name, value in other.items():
                    if one[name].tobytes() != value.tobytes():
                        what = f"@{name} of launch {launch} on rank {rank}"
                        return Notice(Watcher.RESULT, "", what, seed)
    return Notice(Watcher.NOBODY)


def find_harm(program: ProgramOp, early: int | None = None) -> str:
    """The first thing that can go wrong in some run and routing; empty where nothing can.

    `early` is the number of a signal that is sent before the work, by mistake.
    """
    graph = build_graph(program, LAUNCHES, early)
    needs = find_needs(program, graph)
    return next(harms(program, graph, needs), "")


def harms(program: ProgramOp, graph: TaskGraph, needs: Needs) -> Iterator[str]:
    """All that can go wrong, the worst first."""
    orders = certain_orders(graph)
    names = [f"{graph.tasks[n]}" for n in orders.stuck if n < len(graph.tasks)]
    if orders.stuck:
        yield f"{names[0] if names else 'a launch'} never begins"
    yield from needs.wrong
    for first, second in zip(needs.first, needs.second, strict=True):
        if not orders.after[first, second]:
            yield f"{graph.tasks[first]} is not before {graph.tasks[second]}"
