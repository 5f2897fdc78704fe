"""Words of a command line, as argparse takes them and as it has read them."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence

from hpmoe_ir.diagnostics import InputError

NO_VALUE = re.compile(r"(--[^=]+=|-[^-]=?)--")
"""An option with `--` as its value: argparse takes that out and leaves an empty list."""


def refuse_no_values(words: Sequence[str]) -> None:
    """Raises InputError for an option whose value is `--`."""
    for word in words:
        if word == "--":
            return
        found = NO_VALUE.fullmatch(word)
        if found:
            raise InputError(f"argument {found[1].rstrip('=')}: expected a value, found '--'")


def command_line(actions: Sequence[argparse.Action], args: argparse.Namespace) -> str:
    """`hpmoe COMMAND` with what differs from the defaults, quoted for a shell."""
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
    """The same options but for some. An option that does not exist is an error of the caller."""
    assert all(hasattr(args, name) for name in options), f"no such option: {options}"
    return argparse.Namespace(**{**vars(args), **options})
