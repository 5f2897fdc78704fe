"""Mutated graphs of MindSpore."""

from __future__ import annotations

from random import Random
from typing import Any

from hpmoe_ir.frontends.mindir import mindir_format
from text_fuzz.kinds.kind import earlier
from text_fuzz.mutate import flip
from text_fuzz.seeds import Seeds
from text_fuzz.watch import Case


def _fields(message: Any, rng: Random) -> tuple[Any, Any]:
    """A random message inside a protobuf message, and one of its fields that is set."""
    while True:
        there = message.ListFields()
        if not there:
            return message, None
        descriptor, value = rng.choice(there)
        if descriptor.message_type is None or rng.random() < 0.1:
            return message, descriptor
        message = rng.choice(list(value)) if descriptor.is_repeated else value


def mindir(seeds: Seeds, rng: Random) -> Case:
    """A mutated MINDIR graph: bytes, or fields of the message."""
    name = rng.choice(list(seeds.mindir))
    data = seeds.mindir[name]
    if rng.random() < 0.3:
        data, changes = flip(data, rng), "flip"
    else:
        model = mindir_format().ModelProto()
        model.ParseFromString(data)
        names: list[str] = []
        for _ in range(rng.choice((1, 1, 2, 3))):
            message, descriptor = _fields(model.graph if rng.random() < 0.8 else model, rng)
            if descriptor is None:
                continue
            names.append(descriptor.name)
            _change_field(message, descriptor, model, rng)
        data, changes = model.SerializeToString(), "+".join(names)
    before, output = earlier(rng, "out.mlir")
    args = ["import", "--mindspore", "graph.mindir", "-o", output]
    if rng.random() < 0.2:
        args += ["--ranks", "2"]
    files = {"graph.mindir": data, **before}
    return Case("mindir", "hpmoe", tuple(args), files, f"{name} {changes}", output)


def _change_field(message: Any, descriptor: Any, model: Any, rng: Random) -> None:
    value: Any = getattr(message, descriptor.name)
    if descriptor.message_type is not None or rng.random() < 0.3:
        if not descriptor.is_repeated or rng.random() < 0.2:
            message.ClearField(descriptor.name)
        elif rng.random() < 0.5:
            del value[rng.randrange(len(value))]
        else:
            value.append(rng.choice(list(value)))
        return
    old: Any = value[0] if descriptor.is_repeated else value
    other: Any = _other_value(old, model, rng)
    try:
        if descriptor.is_repeated:
            value[rng.randrange(len(value))] = other
        else:
            setattr(message, descriptor.name, other)
    except ValueError:
        message.ClearField(descriptor.name)


def _other_value(old: Any, model: Any, rng: Random) -> Any:
    """Another value of a field: odd, near the old one, or of another field."""
    match old:
        case str():
            nodes = list(model.graph.node)
            node = rng.choice(nodes) if nodes else None
            names = [] if node is None else [*node.input, *node.output]
            return rng.choice((*names, "", "\u00e9", "a" * 9999))
        case bytes():
            return rng.choice((b"", b"\xff\xfe", old[:-1], old * 2, flip(old, rng)))
        case float():
            return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e300))
        case _:
            return rng.choice((0, 1, -1, 2, 3, 5, 7, 2**31 - 1, old + 1, old - 1, 2**62))
