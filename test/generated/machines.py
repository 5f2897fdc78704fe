"""Machine descriptions drawn at random: each runs a small layer right, or is refused."""

from __future__ import annotations

import random
import re
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

from generated.cases import Backward, Case, Launch, Lowering
from generated.graphs import layer_graph
from generated.levels import check
from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.machines.numbers import UNITS

BASE = "ascend-a3"

MEMORIES = {
    "memory.l0a": (9, 19),
    "memory.l0b": (9, 19),
    "memory.l0c": (10, 21),
    "memory.l1": (12, 22),
    "memory.ub": (13, 20),
}
"""Binary logarithms of the smallest and the largest size drawn of each memory."""


def drawn_numbers(number: int) -> dict[str, int]:
    """The numbers in which machine `number` differs from the base, by section and key.

    Half of the memories are the base's own; others are drawn evenly on a logarithmic scale, whole
    kilobytes or not. Now and then a number is one that no kernel is written for.
    """
    rng = random.Random(number)
    numbers = {"cores.aic": rng.choice((1, 1, 2, 2, 3, 5, 24))}
    for key, (low, high) in MEMORIES.items():
        if rng.random() < 0.5:
            size = int(2 ** rng.uniform(low, high))
            numbers[key] = max(1024, size // 1024 * 1024) if rng.random() < 0.8 else size
    for key, chance, values in (
        ("memory.l1_reserved", 0.15, (32, 300, 2049, 8192)),
        ("memory.ub_reserved", 0.15, (32, 300, 9217, 40000)),
        ("memory.counter_line", 0.03, (32, 128)),
        ("memory.hbm", 0.05, (100_000, 10_000_000)),
        ("cores.aiv_per_aic", 0.04, (1, 3)),
        ("limits.event_ids", 0.06, (1, 2, 8)),
        ("limits.families", 0.03, (4, 64)),
        ("limits.direct_ranks", 0.05, (1, 2)),
    ):
        if rng.random() < chance:
            numbers[key] = rng.choice(values)
    return numbers


def description(number: int, numbers: Mapping[str, int]) -> str:
    """The text of the description of machine `number`, which differs from the base in `numbers`."""
    lines = [f'name = "machine-{number}"', f'base = "{BASE}"']
    for key, value in numbers.items():
        lines += [f"[{key}]", f"value = {value}", f'unit = "{UNITS[key]}"', 'source = "drawn"']
    return "\n".join(lines) + "\n"


def case_of_machine(number: int, machine: Path) -> Case:
    """A small layer, both directions, for the machine described in a file."""
    rng = random.Random(~number)
    ranks = rng.choice((1, 2, 2, 3))
    local = rng.choice((1, 2, 3))
    top = min(rng.choice((1, 2, 3)), ranks * local)
    hidden, width = rng.choice(((32, 16), (64, 48), (112, 32), (336, 80), (720, 48)))
    # Many rows where memories are small: several chunks, blocks and sections.
    most = rng.choice((12, 24, 24, 160))
    launches = tuple(
        Launch(tuple(rng.randrange(most) for _ in range(ranks)), "uniform", rng.randrange(1000))
        for _ in range(2)
    )
    return Case(
        layer_graph(hidden, width),
        ranks=ranks,
        local=local,
        top=top,
        capacity=None,
        dtype=rng.choice(("bf16", "f16")),
        launches=launches,
        lowering=Lowering(1, (("machine", str(machine)),)),
        backward=Backward(weight_gradients=rng.choice(("f32", "f32", "bf16"))),
        orders=(rng.randrange(100),),
    )


@dataclass
class MachineReport:
    """What became of drawn machines."""

    right: list[int] = field(default_factory=list[int])
    """Machines on which both directions are right."""
    refused: dict[int, str] = field(default_factory=dict[int, str])
    """Messages of the refusals."""
    failures: dict[int, str] = field(default_factory=dict[int, str])

    def lines(self) -> list[str]:
        """The report for people."""
        count = len(self.right) + len(self.refused) + len(self.failures)
        kinds = Counter(re.sub(r"\d+", "N", text) for text in self.refused.values())
        return [
            f"{count} machines: {len(self.right)} run both directions right, {len(self.refused)} "
            f"are refused, {len(self.failures)} fail",
            *(f"  {n:>4} {kind}" for kind, n in sorted(kinds.items(), key=lambda k: (-k[1], k[0]))),
        ]


def judge_machine(number: int, numbers: Mapping[str, int] | None = None) -> tuple[str, str]:
    """Returns `right` and the machine's name, or `refused` or `failed` and the message.

    The machine has the numbers drawn for `number`, or those given. A refusal is one line and comes
    before any C++ is compiled: it is the compiler's, since a kernel that does not compile raises
    another error.
    """
    with tempfile.TemporaryDirectory(prefix="hpmoe-machine-") as folder:
        path = Path(folder) / f"machine-{number}.toml"
        path.write_text(description(number, numbers or drawn_numbers(number)))
        try:
            agreed = check(case_of_machine(number, path))
        except InputError as e:
            text = e.message
            return ("failed", text) if "\n" in text else ("refused", text)
        except Exception as e:
            lines = "".join(traceback.format_exception(e, limit=-3))
            return "failed", f"{type(e).__name__}: {e}\n{lines}"
        if agreed.kind != "both":
            return "failed", f"expected both directions, found {agreed.kind}"
        return "right", load_machine(str(path)).name


def judge_machines(
    count: int, first: int, processes: int, progress: Callable[[int], None] = lambda _: None
) -> MachineReport:
    """Judges machines `first` to `first + count - 1`."""
    report = MachineReport()
    numbers = range(first, first + count)
    with get_context("spawn").Pool(processes) as pool:
        for number, (outcome, text) in zip(numbers, pool.imap(judge_machine, numbers), strict=True):
            progress(number - first + 1)
            match outcome:
                case "right":
                    report.right.append(number)
                case "refused":
                    report.refused[number] = text
                case _:
                    report.failures[number] = text
    return report
