"""Prints some of a task table for tests: `show_table.py FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

from hpmoe_ir.dialects.queue import POINT_BITS, POINT_MASK
from hpmoe_ir.lowering.task_table import read_task_table


def main(path: str) -> None:
    table = read_task_table(Path(path).read_bytes())
    print(f"magic {table.header['magic']:#x}")
    for name in ("version", "ranks", "blocks", "families", "tasks"):
        print(name, table.header[name])
    for core, queues in table.queues.items():
        for number, queue in enumerate(queues):
            slots = [f"{slot >> POINT_BITS}.{slot & POINT_MASK}" for slot in queue.tolist()]
            print(f"{core} {number}: {' '.join(slots)}")


if __name__ == "__main__":
    main(sys.argv[1])
