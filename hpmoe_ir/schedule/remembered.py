"""Choices of `auto` kept in the cache directory, by everything that they follow from."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import hpmoe_ir
from hpmoe_ir.driver.specs import pipeline_text
from hpmoe_ir.output import write_file
from hpmoe_ir.runtime.cpu_build import NAME_DIGITS, cache_dir, content_digest
from hpmoe_ir.schedule.candidates import Layer, Passes


@dataclass(frozen=True)
class Choice:
    """A chosen pipeline and the report of how it was chosen."""

    pipeline: str
    """In the syntax of `hpmoe-opt -p`, without `derive-backward`."""
    lines: tuple[str, ...]


def remembered(layer: Layer, candidates: list[Passes]) -> Choice | None:
    """Returns the choice that was made before for the same layer, machine and conditions.

    None if there is none, if the package has changed since, or if the file is damaged.
    """
    try:
        kept = json.loads(_file(layer, candidates).read_text())
    except (OSError, ValueError):
        return None
    match kept:
        case [str(), *_] if all(isinstance(line, str) for line in kept):
            pipeline, *lines = cast("list[str]", kept)
            return Choice(pipeline, tuple(lines))
        case _:
            return None


def remember(layer: Layer, candidates: list[Passes], choice: Choice) -> None:
    """Keeps a choice. Raises InputError if the cache directory can't be written."""
    path = _file(layer, candidates)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_file(path, json.dumps([choice.pipeline, *choice.lines], indent=1).encode())


def _file(layer: Layer, candidates: list[Passes]) -> Path:
    parts = [
        source_digest(),
        repr(layer.machine),
        str(layer.graph),
        pipeline_text([layer.backward] if layer.backward else []),
        repr(layer.conditions),
        *map(pipeline_text, candidates),
    ]
    return cache_dir() / f"schedule-{content_digest(parts)[:NAME_DIGITS]}.json"


@cache
def source_digest() -> str:
    """Returns the SHA-256 of the package's sources, which what is kept is of."""
    parts: list[str | bytes] = []
    root = Path(hpmoe_ir.__file__).parent
    for folder, names, files in sorted(os.walk(root, followlinks=True)):
        names[:] = [name for name in names if name != "__pycache__"]
        for name in sorted(files):
            if name.endswith((".py", ".h", ".cpp")):
                path = Path(folder, name)
                parts += [str(path.relative_to(root)), path.read_bytes()]
    return content_digest(parts)
