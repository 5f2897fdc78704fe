"""`python -m adversary`: is there a program that verify-queues accepts and that goes wrong?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from adversary.campaign import BLOCK, Disagreement, Tally, ask_block, run_campaign
from adversary.planted import COMMON_FAULTS, RARE_FAULTS, misses

MOST_REFUSED = 0.05
"""Largest share of harmless programs that may be refused."""

KEPT = 200
"""Harmless programs that are refused, of which the text is kept."""


def main() -> int:
    """Runs the command; the status is 0 only if nothing harmful is accepted."""
    parser = argparse.ArgumentParser(prog="python -m adversary", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", help="print one program, by the name that a report gives it")
    parser.add_argument("--keep", type=Path, help="directory for programs of disagreement")
    parser.add_argument(
        "--planted", action="store_true", help="plant faults in the proof, and find each of them"
    )
    args = parser.parse_args()
    if args.show:
        return show(args.show)
    print(f"seed {args.seed}", flush=True)
    if args.planted:
        return find_planted(args.programs, args.seed)
    total = run_campaign(args.programs, args.seed, args.jobs, Progress())
    for line in total.lines():
        print(line)
    if args.keep:
        _keep(args.keep / "accepted", total.accepted_harmful)
        _keep(args.keep / "refused", total.refused_harmless[:KEPT])
    return 1 if total.accepted_harmful or total.refused_share >= MOST_REFUSED else 0


def show(name: str) -> int:
    """Prints a program, what was changed in it, and what the proof and the judge say."""
    seed, block, _ = map(int, name.split("/"))
    asked = next(a for a in ask_block(seed, block, Tally()) if a.name == name)
    print(_text(asked.disagreement()), end="")
    return 0


def _text(found: Disagreement) -> str:
    changes = ", ".join(found.changes) or "as drawn"
    proof = found.proof or "verify-queues: accepted"
    head = [f"// {found.name}: {changes}", f"// {proof}", f"// {found.verdict.text or 'harmless'}"]
    return "\n".join([*head, found.text])


def find_planted(programs: int, seed: int) -> int:
    """Looks for each planted fault in the first programs of a seed; 0 if all are found."""
    tally = Tally()
    left = dict(enumerate((*COMMON_FAULTS, *RARE_FAULTS)))
    for block in range(-(-programs // BLOCK)):
        for asked in ask_block(seed, block, tally):
            for number, fault in list(left.items()):
                if misses(fault, asked):
                    print(f"{fault.__name__}: {asked.name} {asked.verdict.text}", flush=True)
                    del left[number]
        if not left:
            return 0
    for fault in left.values():
        print(f"{fault.__name__}: not found")
    return 1


def _keep(directory: Path, found: list[Disagreement]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for one in found:
        path = directory / f"{one.name.replace('/', '-')}.mlir"
        path.write_text(_text(one))


class Progress:
    """Says now and then how far a run is, on standard error."""

    def __init__(self) -> None:
        self.next = 0.0

    def __call__(self, total: Tally) -> None:
        if total.seconds >= self.next:
            self.next = total.seconds + 10
            harmful = len(total.accepted_harmful)
            print(
                f"{total.count} programs, {harmful} harmful ones accepted, "
                f"{100 * total.refused_share:.1f} % of harmless ones refused, "
                f"{total.seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    sys.exit(main())
