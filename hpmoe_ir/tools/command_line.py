"""The command line that stands for options as argparse has read them."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence


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
