"""Reads the text of a configuration file, JSON or YAML, into mappings.

Each key stands for one value: a repeated key is refused, where the parsers of both formats would
take the last one. So are files that are far larger or deeper than any configuration, and YAML whose
aliases stand for more values than that.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, cast

import yaml

from hpmoe_ir.diagnostics import InputError, one_line

Fields: TypeAlias = Mapping[str, object]

MAX_JSON_BYTES = 2**22
MAX_YAML_BYTES = 2**18
"""Largest files in bytes; PyYAML reads some 100 KB a second."""

MAX_DEPTH = 100
"""Largest nesting of mappings and lists."""

MAX_VALUES = 200_000
"""Largest number of values of a YAML file, aliases written out."""

_JSON_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\]:,]')


def fields_of(value: object) -> Fields | None:
    """Returns `value` as a mapping of fields, None if it is not one."""
    if not isinstance(value, dict):
        return None
    return {str(key): item for key, item in cast(dict[object, object], value).items()}


def load_config(path: Path) -> Fields:
    """Reads the fields of a `.json`, `.yaml` or `.yml` file.

    Raises InputError for a file that can't be read, is not of its format, repeats a key, is too
    large or too deep, or is not a mapping.
    """
    if path.suffix not in (".json", ".yaml", ".yml"):
        raise InputError("expected a .json, .yaml or .yml file", str(path))
    data = _load_json(path) if path.suffix == ".json" else _load_yaml(path)
    fields = fields_of(data)
    if fields is None:
        raise InputError(f"the file: expected a mapping, found {shown(data)}", str(path))
    return fields


def named(field: str) -> str:
    """Returns the name of a field for messages, as JSON if it isn't of printable characters."""
    return field if field.isprintable() else shown(field)


def shown(value: object) -> str:
    """Returns a value as JSON, for messages."""
    return json.dumps(value, default=str)


def _read(path: Path, limit: int) -> str:
    if os.path.exists(path) and not os.path.isfile(path):
        raise InputError("expected a file, found none", str(path))
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as e:
        raise InputError(f"can't read it: {e.strerror}", str(path)) from e
    if len(data) > limit:
        raise InputError(
            f"expected a configuration of at most {limit} bytes, found more", str(path)
        )
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise InputError("expected text, found bytes that are not UTF-8", str(path)) from e


def _load_json(path: Path) -> object:
    text = _read(path, MAX_JSON_BYTES)
    _check_json_keys(text, path)
    try:
        return json.loads(text)
    except json.JSONDecodeError as e:
        raise InputError(f"not JSON: {e.msg}", f"{path}:{e.lineno}:{e.colno}") from e
    except ValueError as e:  # an overlong number
        raise InputError(f"not a JSON configuration: {e}", str(path)) from e


def _check_json_keys(text: str, path: Path) -> None:
    """Raises InputError at the second of two equal keys of an object, or at too deep a nesting."""
    objects: list[set[str] | None] = []
    last: tuple[str, int] | None = None
    for token in _JSON_TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                if len(objects) == MAX_DEPTH:
                    where = _place(text, path, token.start())
                    raise InputError(f"expected at most {MAX_DEPTH} levels, found more", where)
                objects.append(set() if token[0] == "{" else None)
            case "}" | "]":
                if objects:
                    objects.pop()
            case ":":
                keys = objects[-1] if objects else None
                if last is not None and keys is not None:
                    key, start = last
                    if key in keys:
                        raise InputError(
                            f"{named(key)}: expected the field once, found it twice",
                            _place(text, path, start),
                        )
                    keys.add(key)
            case _:
                last = _json_string(token[0]), token.start()
                continue
        last = None


def _json_string(token: str) -> str:
    try:
        return str(json.loads(token, strict=False))
    except ValueError:  # an invalid escape, which the parser of the whole text refuses
        return token


def _place(text: str, path: Path, offset: int) -> str:
    line = text.count("\n", 0, offset) + 1
    return f"{path}:{line}:{offset - text.rfind(chr(10), 0, offset)}"


def _load_yaml(path: Path) -> object:
    text = _read(path, MAX_YAML_BYTES)
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _YamlCheck(path).extent(node)
        return cast(object, loader.construct_document(node))  # pyright: ignore[reportUnknownMemberType]
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise InputError(f"not YAML: {e.problem}", f"{path}{place}") from e
    except yaml.YAMLError as e:
        raise InputError(f"not YAML: {one_line(str(e))}", str(path)) from e
    except RecursionError as e:
        raise InputError(f"expected at most {MAX_DEPTH} levels, found more", str(path)) from e
    except (ValueError, OverflowError) as e:  # an invalid date, an overlong number
        raise InputError(f"not a YAML configuration: {e}", str(path)) from e


@dataclass(frozen=True)
class _Extent:
    """What a node stands for, aliases written out."""

    values: int
    levels: int


class _YamlCheck:
    """Checks the parsed nodes of a YAML file before their values are made."""

    def __init__(self, path: Path):
        self.path = path
        self.extents: dict[int, _Extent | None] = {}
        """The extent of each node, by its identity; None while it is being found."""

    def extent(self, node: yaml.Node) -> _Extent:
        """Returns what `node` stands for.

        Raises InputError for a repeated key, an alias of what it is part of, or too large an
        extent.
        """
        if id(node) in self.extents:
            known = self.extents[id(node)]
            if known is None:
                raise self.refuse(node, "expected no alias of what it is part of, found one")
            return known
        self.extents[id(node)] = None
        parts = [self.extent(child) for child in self.children(node)]
        found = _Extent(
            1 + sum(part.values for part in parts),
            1 + max((part.levels for part in parts), default=0),
        )
        if found.levels > MAX_DEPTH:
            raise self.refuse(node, f"expected at most {MAX_DEPTH} levels, found more")
        if found.values > MAX_VALUES:
            raise self.refuse(
                node, f"expected at most {MAX_VALUES} values, aliases written out, found more"
            )
        self.extents[id(node)] = found
        return found

    def children(self, node: yaml.Node) -> list[yaml.Node]:
        match node:
            case yaml.MappingNode():
                pairs = cast(list[tuple[yaml.Node, yaml.Node]], node.value)
                self.check_keys([key for key, _ in pairs])
                return [child for pair in pairs for child in pair]
            case yaml.SequenceNode():
                return cast(list[yaml.Node], node.value)
            case _:
                return []

    def check_keys(self, keys: list[yaml.Node]) -> None:
        found: set[str] = set()
        for key in keys:
            if isinstance(key, yaml.ScalarNode):
                name = str(cast(object, key.value))
                if name in found:
                    raise self.refuse(
                        key, f"{named(name)}: expected the field once, found it twice"
                    )
                found.add(name)

    def refuse(self, node: yaml.Node, message: str) -> InputError:
        mark = node.start_mark
        return InputError(message, f"{self.path}:{mark.line + 1}:{mark.column + 1}")
