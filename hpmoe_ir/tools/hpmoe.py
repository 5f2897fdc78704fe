"""`hpmoe`: imports, compiles, runs, times and tunes layers, and calibrates machines."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.tools.command_line import refuse_repeated_options, run_tool


class _Parser(argparse.ArgumentParser):
    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        refuse_repeated_options(self)

    def error(self, message: str) -> NoReturn:
        # Status 1 and one line, as for other invalid input, instead of status 2 and the usage.
        raise InputError(one_line(message))


def _parser() -> argparse.ArgumentParser:
    from hpmoe_ir.tools import (
        hpmoe_calibrate,
        hpmoe_compile,
        hpmoe_import,
        hpmoe_run,
        hpmoe_simulate,
        hpmoe_tune,
    )

    parser = _Parser("hpmoe", description="Compiles MoE layers to one Ascend kernel and runs them.")
    parser.add_argument(
        "--traceback",
        action="store_true",
        help="show where in this program an unexpected error came from",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for command in (
        hpmoe_import,
        hpmoe_compile,
        hpmoe_run,
        hpmoe_simulate,
        hpmoe_tune,
        hpmoe_calibrate,
    ):
        command.add_command(commands)
    return parser


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Entry point; prints a message and exits with status 1 if a command fails."""
    words = list(sys.argv[1:] if args is None else args)

    def run() -> int:
        options = _parser().parse_args(words)
        return options.run(options)

    sys.exit(run_tool(words, run))


if __name__ == "__main__":
    main()
