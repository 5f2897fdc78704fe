"""Breaks compiled programs in systematic ways and records who notices.

`python -m mutants` judges a sample of all mutants and writes the record and the page. Names of
mutants, or their beginnings, judge all of these, sampled or not, and print what was said.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed

from mutants.kinds import LAYERS
from mutants.mutant import Outcome
from mutants.page import PAGE, page_text
from mutants.record import RECORD, read_record, record_text, to_record
from mutants.suite import all_work, judge_work


def main() -> int:
    """Status 1 where a mutant that misbehaves went unnoticed or a survivor is not explained."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="names of mutants, or their beginnings")
    parser.add_argument("--layer", choices=LAYERS, action="append", help="these layers only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    layers = options.layer or LAYERS
    work = [w for w in all_work() if w.layer in layers]
    if options.names:
        work = [w for w in work if any(n.split(":")[0] == w.name for n in options.names)]
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(judge_work, w, tuple(options.names)): w for w in work}
        for done in as_completed(futures):
            found = done.result()
            outcomes += found
            print(f"{futures[done].layer} {futures[done].name}: {len(found)}", file=sys.stderr)
    records = [to_record(o) for o in outcomes]
    if options.names:
        for outcome, record in zip(outcomes, records, strict=True):
            print(record.line)
            print(f"  {outcome.what}")
            for said in (outcome.static, outcome.run):
                if said is not None and said.message:
                    first = said.message.splitlines()[0]
                    print(f"  {said.watcher.value} {said.kind} seed {said.seed}: {first}")
            if outcome.harm:
                print(f"  oracle: {outcome.harm}")
        return 0
    if options.layer:
        records += [r for r in read_record() if r.layer not in layers]
    RECORD.write_text(record_text(records))
    PAGE.write_text(page_text(read_record()))
    wrong = [r for r in read_record() if r.open]
    for record in wrong:
        print(f"unexplained: {record.line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
