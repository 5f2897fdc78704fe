"""Helpers for argparse: checks of arguments, and reconstruction of a command line."""

from __future__ import annotations

import argparse
import errno
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from hpmoe_ir.diagnostics import InputError, unexpected

NO_VALUE = re.compile(r"(--[^=]+=|-[^-]=?)--")
"""An option with `--` as its value, which argparse would replace by an empty list."""

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""Errors of writing to a full disk. Those of a file that is not standard output have its name."""


class StoreOnce(argparse.Action):
    """The action `store`, which refuses an option that is given twice: argparse keeps the last."""

    _given_to: argparse.Namespace | None = None

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None and self._given_to is namespace:
            raise argparse.ArgumentError(self, "given twice, expected it once")
        self._given_to = namespace
        setattr(namespace, self.dest, values)


def refuse_repeated_options(parser: argparse.ArgumentParser) -> None:
    """Makes the arguments that are added to `parser` from now on refuse to be given twice."""
    parser.register("action", None, StoreOnce)
    parser.register("action", "store", StoreOnce)


def refuse_no_values(words: Sequence[str]) -> None:
    """Raises InputError for an option whose value is `--`."""
    for word in words:
        if word == "--":
            return
        found = NO_VALUE.fullmatch(word)
        if found:
            raise InputError(f"argument {found[1].rstrip('=')}: expected a value, found '--'")


def run_tool(words: Sequence[str], run: Callable[[], int]) -> int:
    """Returns the status that `run` returns; 1, after a message, if it raises.

    Invalid input and an output that can't be written give one line. So does an unexpected error,
    unless `--traceback` is among `words`, the arguments of the tool.
    """
    try:
        refuse_no_values(words)
        return _flushed(run)
    except InputError as error:
        print(error, file=sys.stderr)
    except BrokenPipeError:
        # The reader has closed the pipe, as in `hpmoe run ... | head`. The interpreter flushes
        # what is left when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if "--traceback" in words:
            raise
        print(unexpected(error), file=sys.stderr)
    return 1


def _flushed(run: Callable[[], int]) -> int:
    """Runs a tool and writes what it has printed. Raises InputError if a disk is full."""
    try:
        try:
            return run()
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.errno not in FULL or error.filename is not None:
            raise
        # What could not be written is still buffered, and the interpreter flushes when it ends.
        with suppress(OSError):
            sys.stdout.close()
        raise InputError(f"can't write: {error.strerror}", "<stdout>") from error


def command_line(actions: Sequence[argparse.Action], args: argparse.Namespace) -> str:
    """Returns `hpmoe COMMAND` with the non-default options, quoted for a shell."""
    words = ["hpmoe", str(args.command)]
    for action in actions:
        value = getattr(args, action.dest, action.default)
        if value is None or value == action.default:
            continue
        if action.option_strings:
            words.append(action.option_strings[-1])
        if action.nargs != 0:
            words.append(str(value))
    return shlex.join(words)


def changed(args: argparse.Namespace, **options: object) -> argparse.Namespace:
    """Returns a copy of `args` with some options replaced; all of them must exist."""
    assert all(hasattr(args, name) for name in options), f"no such option: {options}"
    return argparse.Namespace(**{**vars(args), **options})
