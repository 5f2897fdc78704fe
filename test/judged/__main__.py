"""`python -m judged`: judges right and broken runs of generated graphs."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import pytest

from judged.graphs import GRAPHS
from judged.study import JudgedGraph, Outcomes, install_operators, judge


def main() -> int:
    """Runs the command; the status is 0 only if every right run has passed."""
    parser = argparse.ArgumentParser(prog="python -m judged", description=__doc__)
    parser.add_argument("--graphs", type=int, default=GRAPHS, help="number of graphs")
    parser.add_argument("--seeds", type=int, default=20, help="seeds of values for each graph")
    parser.add_argument("--first-graph", type=int, default=0, help="number of the first graph")
    parser.add_argument("--first-seed", type=int, default=0, help="first seed of values")
    args = parser.parse_args()
    outcomes = Outcomes()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        install_operators(Path(folder), patch)
        seeds = range(args.first_seed, args.first_seed + args.seeds)
        for number in range(args.first_graph, args.first_graph + args.graphs):
            judge(JudgedGraph(number), seeds, outcomes)
            print(f"graph {number} judged", file=sys.stderr, flush=True)
    largest, nearest = max(outcomes.right, default=(0.0, ""))
    print(
        f"{len(outcomes.right)} results of right runs: {len(outcomes.failed)} failed, "
        f"{len(outcomes.not_judged)} not judged, largest error {largest:.2f} of the tolerance"
    )
    print(f"  nearest: {nearest}")
    for line in (*outcomes.failed, *outcomes.not_judged):
        print(f"  {line}")
    for line in outcomes.table():
        print(line)
    print("below what rounding can tell apart: passed, of runs with an effect, median ratio")
    for how, operation, passed, runs, ratio in outcomes.below():
        print(f"  {how:<14} {operation:<26} {passed:>4} of {runs:>4}, {ratio:.2f}")
    return 1 if outcomes.failed else 0


if __name__ == "__main__":
    sys.exit(main())
