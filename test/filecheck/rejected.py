"""Runs a command that must refuse its input, and shows what it says.

`rejected.py hpmoe-opt FILE ...` fails unless the command exits with status 1, leaves standard
output empty and prints no traceback. File arguments lose their folder in the text, so that tests
can check whole lines.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main(command: list[str]) -> int:
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    text = run.stderr
    for argument in command[1:]:
        path = Path(argument)
        if path.is_absolute() and path.exists():
            text = text.replace(str(path), path.name)
    print(text, end="")
    problems = [
        problem
        for problem, found in (
            (f"expected exit status 1, found {run.returncode}", run.returncode != 1),
            (f"expected no output, found {run.stdout!r}", bool(run.stdout)),
            ("expected a message, found a traceback", "Traceback" in run.stderr),
        )
        if found
    ]
    for problem in problems:
        print(f"rejected.py: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
