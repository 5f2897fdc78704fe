"""Helpers for argparse: checks of arguments, and reconstruction of a command line."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence

from hpmoe_ir.diagnostics import InputError

NO_VALUE = re.compile(r"(--[^=]+=|-[^-]=?)--")
"""An option with `--` as its value, which argparse would replace by an empty list."""


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
