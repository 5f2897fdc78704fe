"""Mutations of text and bytes: by tokens, by lines, and blind."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

TOKEN = re.compile(
    r'"(?:[^"\\\n]|\\.)*"|0x[0-9a-fA-F]+|\d+\.\d+(?:[eE][-+]?\d+)?|\d+|[%@#!^]?[A-Za-z_][\w.$]*'
    r"|->|::|\s+|."
)

NUMBER = re.compile(r"(?<![\w.@%#!])-?\d+(?:\.\d+)?")
NAME = re.compile(r"[%@#!^][A-Za-z_][\w.]*")
WORD = re.compile(r"[A-Za-z_][\w-]*")
TYPE = re.compile(r"![\w.]+(?:<[^<>]*>)?|tensor<[^<>]*>|\bi\d+\b|\bbf16\b|\bf\d+\b|\bindex\b")

NUMBERS = (
    "0", "1", "-1", "2", "3", "7", "16", "255", "65536", "16777216", "2147483647", "2147483648",
    "4294967296", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "-2147483649", "-9223372036854775809", "1" + "0" * 30, "1" * 5000, "1.5", "1e400", "-0.0",
    "0x10", "0xFFFFFFFFFFFFFFFFF", "1000000000000", "99999999",
)  # fmt: skip

INSERTED = (
    "\0", "\ufeff", "\u00e9", "\u202e", "\U0001f600", "\x1b[31m", "\r", "\\", '"', "'", "//", "(",
    ")", "[", "]", "<", ">", "{", "}", "-> ", ", ", ": ", "@", "%", "#", "!", "^", "=", "*", "+",
    " mod 0 ", " floordiv 0 ", "none", "true", "unit", "dense<>", "array<i32>", "array<i64: 1, 2>",
    "array<i32: 5000000000>", '"x"', "1 : i64", "1 : i1", "2.0 : f32", "@x", "@x::@y", "i0", "i1",
    "i99999999999", "f32", "index", "tensor<2xf32>", "tensor<0xf32>", "tensor<*xf32>", "[]", "{}",
    "()", "affine_map<(d0) -> (d0)>", "opaque<\"a\", \"b\">", "loc(unknown)", "memref<?x?xf32>",
    '"\\00"', '"a\\22b"', "#tile.index<d31>", "#tile.index<d0 * 9223372036854775807>",
    "#tile.access<@b[d5]>", "#builtin.int<1>", "bf16", "f64", "complex<f32>", "(" * 60, "[" * 3000,
    "(" * 3000, "{" * 2000, "tensor<" * 500, "a" * 70000, '"' + "b" * 70000 + '"', "- " * 400,
    "1 + " * 4000, "- - 1", "1 * " * 2000, ",", "\n", "\t", "~", "?", "_",
)  # fmt: skip

Change: TypeAlias = Callable[[str, Random, Sequence[str]], str]


def _pick(rng: Random, text: str, pattern: re.Pattern[str]) -> re.Match[str] | None:
    found = list(pattern.finditer(text))
    return rng.choice(found) if found else None


def _replace(text: str, match: re.Match[str] | None, new: str) -> str:
    return text if match is None else text[: match.start()] + new + text[match.end() :]


def truncate(text: str, rng: Random, others: Sequence[str]) -> str:
    """Cuts the end off, anywhere."""
    return text[: rng.randrange(len(text) + 1)]


def cut(text: str, rng: Random, others: Sequence[str]) -> str:
    """Takes some characters out."""
    start = rng.randrange(len(text) + 1)
    return text[:start] + text[start + rng.choice((1, 2, 5, 20, 100)) :]


def lines(text: str, rng: Random, others: Sequence[str]) -> str:
    """Deletes, repeats or swaps lines."""
    rows = text.splitlines(keepends=True)
    if not rows:
        return text
    i, j = rng.randrange(len(rows)), rng.randrange(len(rows))
    match rng.randrange(4):
        case 0:
            del rows[i]
        case 1:
            rows.insert(j, rows[i])
        case 2:
            rows[i], rows[j] = rows[j], rows[i]
        case _:
            del rows[min(i, j) : max(i, j)]
    return "".join(rows)


def tokens(text: str, rng: Random, others: Sequence[str]) -> str:
    """Deletes, repeats, swaps or moves tokens."""
    parts = TOKEN.findall(text)
    solid = [i for i, part in enumerate(parts) if not part.isspace()]
    if not solid:
        return text
    i, j = rng.choice(solid), rng.choice(solid)
    match rng.randrange(4):
        case 0:
            del parts[i]
        case 1:
            parts.insert(i, parts[i] + " ")
        case 2:
            parts[i], parts[j] = parts[j], parts[i]
        case _:
            parts[i] = parts[j]
    return "".join(parts)


def number(text: str, rng: Random, others: Sequence[str]) -> str:
    """Another number, odd or one beside it."""
    match = _pick(rng, text, NUMBER)
    if match is None:
        return text
    new = rng.choice(NUMBERS)
    if rng.random() < 0.4 and len(match.group()) < 20 and "." not in match.group():
        old = int(match.group())
        new = str(rng.choice((old + 1, old - 1, 2 * old, -old, old // 2, old * old)))
    return _replace(text, match, new)


def name(text: str, rng: Random, others: Sequence[str]) -> str:
    """Another name of the file in place of one."""
    match = _pick(rng, text, NAME)
    other = _pick(rng, text, NAME)
    return text if match is None or other is None else _replace(text, match, other.group())


def word(text: str, rng: Random, others: Sequence[str]) -> str:
    """Another word of the file, or of another, in place of one."""
    match = _pick(rng, text, WORD)
    other = _pick(rng, rng.choice((text, *others)), WORD)
    return text if match is None or other is None else _replace(text, match, other.group())


def types(text: str, rng: Random, others: Sequence[str]) -> str:
    """Another type of the file in place of one."""
    match = _pick(rng, text, TYPE)
    other = _pick(rng, rng.choice((text, *others)), TYPE)
    return text if match is None or other is None else _replace(text, match, other.group())


def value(text: str, rng: Random, others: Sequence[str]) -> str:
    """Another kind of value after an equals sign or a colon."""
    match = _pick(rng, text, re.compile(r"(?<=[=:] )[^\s,}\]>]+"))
    return _replace(text, match, rng.choice(INSERTED[30:]))


def insert(text: str, rng: Random, others: Sequence[str]) -> str:
    """Something odd somewhere."""
    if rng.random() < 0.5:
        match = _pick(rng, text, TOKEN)
        if match is not None:
            return _replace(text, match, rng.choice(INSERTED))
    start = rng.randrange(len(text) + 1)
    return text[:start] + rng.choice(INSERTED) + text[start:]


def splice(text: str, rng: Random, others: Sequence[str]) -> str:
    """The beginning of one file and the end of another, or a line of another."""
    if not others:
        return text
    other = rng.choice(others)
    if rng.random() < 0.5:
        return text[: rng.randrange(len(text) + 1)] + other[rng.randrange(len(other) + 1) :]
    rows, more = text.splitlines(keepends=True), other.splitlines(keepends=True)
    if more:
        rows.insert(rng.randrange(len(rows) + 1), rng.choice(more))
    return "".join(rows)


def section(text: str, rng: Random, others: Sequence[str]) -> str:
    """What stands between two brackets is taken out, repeated or nested."""
    match = _pick(rng, text, re.compile(r"\([^()]*\)|\[[^\[\]]*\]|<[^<>]*>|\{[^{}]*\}"))
    if match is None:
        return text
    whole = match.group()
    inner = whole[1:-1]
    new = rng.choice(
        (whole[0] + whole[-1], whole + whole, whole[0] + whole + whole[-1], inner,
         f"{whole[0]}{inner}, {inner}{whole[-1]}")
    )  # fmt: skip
    return _replace(text, match, new)


CHANGES: tuple[Change, ...] = (
    truncate, cut, lines, tokens, tokens, number, number, number, name, name, word, types, value,
    insert, splice, section,
)  # fmt: skip


def flip(data: bytes, rng: Random) -> bytes:
    """Bytes with some changed, taken out, repeated or cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not changed:
            break
        i = rng.randrange(len(changed))
        match rng.randrange(6):
            case 0:
                changed[i] ^= 1 << rng.randrange(8)
            case 1:
                changed[i] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                del changed[i : i + rng.choice((1, 4, 64))]
            case 3:
                changed[i:i] = changed[i : i + rng.choice((1, 4, 64))]
            case 4:
                word = rng.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1, rng.getrandbits(32)))
                changed[i & ~3 : (i & ~3) + 4] = word.to_bytes(4, "little")
            case _:
                if rng.random() < 0.2:
                    del changed[i:]
    return bytes(changed)


def mutate(text: str, rng: Random, others: Sequence[str] = ()) -> tuple[bytes, str]:
    """The bytes of a mutated text, and the names of the mutations."""
    names: list[str] = []
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        change = rng.choice(CHANGES)
        text = change(text, rng, others)
        names.append(change.__name__)
    data = text.encode("utf-8", "surrogatepass")
    if rng.random() < 0.04:
        data = flip(data, rng)
        names.append("flip")
    return data, "+".join(names)
