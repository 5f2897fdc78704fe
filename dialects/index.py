"""Index expressions: affine functions of a task's grid point and of the rank.

They are xDSL affine expressions in which dimension `i` is the i-th coordinate of the grid point
and symbol 0 is the rank that runs the task. Their text uses the names of the coordinates:

```
(rank + p) mod 4
e floordiv 2
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineSymExpr,
)
from xdsl.parser import AttrParser
from xdsl.utils.exceptions import VerifyException

from hpmoe_ir.integers import ceil_div

IntArray: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
BoolArray: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

RANK = AffineExpr.symbol(0)
"""The rank that runs the task."""

RANK_NAME = "rank"

_OPERATORS = {
    AffineBinaryOpKind.Add: "+",
    AffineBinaryOpKind.Mul: "*",
    AffineBinaryOpKind.Mod: "mod",
    AffineBinaryOpKind.FloorDiv: "floordiv",
    AffineBinaryOpKind.CeilDiv: "ceildiv",
}


MOST_POINTS = 1 << 22
"""Most values of an expression to enumerate, if interval arithmetic gives no exact bounds."""

MOST_VALUE = 1 << 62
"""Largest magnitude of a value: evaluation is in 64 bits."""

MOST_CONSTANT = (1 << 31) - 1
"""Largest constant of an expression: counts of rows, columns, tasks and ranks fit 32 bits."""

MOST_TERMS = 64
"""Most terms of a sum, and most factors and divisors of a product, in text."""


def default_names(count: int) -> tuple[str, ...]:
    """Returns default names of coordinates: d0, d1, ..."""
    return tuple(f"d{i}" for i in range(count))


def walk_index(expr: AffineExpr) -> Iterator[AffineExpr]:
    """Yields all sub-expressions of `expr`, itself first."""
    yield expr
    if isinstance(expr, AffineBinaryOpExpr):
        yield from walk_index(expr.lhs)
        yield from walk_index(expr.rhs)


def dims_used(expr: AffineExpr) -> set[int]:
    """Returns the grid coordinates that `expr` depends on."""
    return {e.position for e in walk_index(expr) if isinstance(e, AffineDimExpr)}


def uses_rank(expr: AffineExpr) -> bool:
    """Returns whether `expr` depends on the rank."""
    return any(isinstance(e, AffineSymExpr) for e in walk_index(expr))


def evaluate_index(
    expr: AffineExpr, point: Sequence[IntArray | int], rank: IntArray | int
) -> IntArray | int:
    """Returns the value of `expr` at a grid point, or at many if coordinates are arrays.

    Division and modulo round towards minus infinity, as in MLIR.
    """
    match expr:
        case AffineConstantExpr():
            return expr.value
        case AffineDimExpr():
            return point[expr.position]
        case AffineSymExpr():
            return rank
        case AffineBinaryOpExpr():
            lhs = evaluate_index(expr.lhs, point, rank)
            rhs = evaluate_index(expr.rhs, point, rank)
            match expr.kind:
                case AffineBinaryOpKind.Add:
                    return lhs + rhs
                case AffineBinaryOpKind.Mul:
                    return lhs * rhs
                case AffineBinaryOpKind.Mod:
                    return lhs % rhs
                case AffineBinaryOpKind.FloorDiv:
                    return lhs // rhs
                case AffineBinaryOpKind.CeilDiv:
                    return -((-lhs) // rhs)
        case _:
            raise AssertionError(f"not an index expression: {expr}")


def index_values(expr: AffineExpr, extents: Sequence[int], ranks: int) -> IntArray:
    """Returns the distinct values of `expr` over a grid and all ranks, ascending."""
    used = sorted(dims_used(expr))
    shape = [*(extents[d] for d in used), ranks if uses_rank(expr) else 1]
    axes = np.indices(shape, dtype=np.int64)
    point: list[IntArray | int] = [0] * len(extents)
    for d, values in zip(used, axes, strict=False):
        point[d] = values
    return np.unique(np.broadcast_to(evaluate_index(expr, point, axes[-1]), shape))


def index_range(expr: AffineExpr, extents: Sequence[int], ranks: int) -> tuple[int, int]:
    """Returns the lowest and highest value of `expr` over a grid and all ranks; (0, -1) if empty.

    Raises VerifyException for an expression that is too large to check.
    """
    used = sorted(dims_used(expr))
    points = prod(extents[d] for d in used) * (ranks if uses_rank(expr) else 1)
    if any(extents[d] <= 0 for d in used) or ranks <= 0:
        return 0, -1
    low, high, exact = _bounds(expr, extents, ranks)
    if exact and len(list(walk_index(expr))) == len(set(walk_index(expr))):
        return low, high
    if points > MOST_POINTS or max(-low, high) >= MOST_VALUE:
        raise VerifyException(
            f"an index expression with up to {points} values between {low} and {high} is too large "
            f"to be checked: expected at most {MOST_POINTS}, smaller than 2^62"
        )
    values = index_values(expr, extents, ranks)
    return int(values[0]), int(values[-1])


def _bounds(expr: AffineExpr, extents: Sequence[int], ranks: int) -> tuple[int, int, bool]:
    """Returns bounds of `expr`, and whether they are exact if no coordinate occurs twice."""
    match expr:
        case AffineConstantExpr():
            return expr.value, expr.value, True
        case AffineDimExpr():
            return 0, extents[expr.position] - 1, True
        case AffineSymExpr():
            return 0, ranks - 1, True
        case AffineBinaryOpExpr():
            a, b, exact = _bounds(expr.lhs, extents, ranks)
            c, d, exact_too = _bounds(expr.rhs, extents, ranks)
            exact = exact and exact_too
            match expr.kind:
                case AffineBinaryOpKind.Add:
                    return a + c, b + d, exact
                case AffineBinaryOpKind.Mul:
                    ends = (a * c, a * d, b * c, b * d)
                    return min(ends), max(ends), exact and (a == b or c == d)
                case AffineBinaryOpKind.FloorDiv:
                    return a // c, b // c, exact
                case AffineBinaryOpKind.CeilDiv:
                    return ceil_div(a, c), ceil_div(b, c), exact
                case AffineBinaryOpKind.Mod:
                    if a // c == b // c:
                        return a % c, b % c, exact
                    return 0, c - 1, False
        case _:
            raise AssertionError(f"not an index expression: {expr}")


def largest_part(expr: AffineExpr, extents: Sequence[int], ranks: int) -> int:
    """Returns a bound on the values of `expr` and of all its sub-expressions."""
    return max(_bounds(part, extents, ranks)[1] for part in walk_index(expr))


def flat_events(
    exprs: Sequence[AffineExpr],
    extents: Sequence[int],
    point: Sequence[IntArray | int],
    rank: IntArray | int,
    size: int,
) -> IntArray:
    """Returns the row-major number of the event at each of `size` grid points, `[size]`.

    `exprs` are the coordinates of the event, each below its extent in `extents`.
    """
    flat = np.zeros(size, dtype=np.int64)
    for expr, extent in zip(exprs, extents, strict=True):
        flat = flat * extent + evaluate_index(expr, point, rank)
    return flat


def format_index(expr: AffineExpr, names: Sequence[str]) -> str:
    """Returns the text of `expr` with the coordinates' names; `parse_index` reads it back."""
    match expr:
        case AffineConstantExpr():
            return str(expr.value)
        case AffineDimExpr():
            return names[expr.position]
        case AffineSymExpr():
            return RANK_NAME
        case AffineBinaryOpExpr():
            return (
                f"{_format_operand(expr.lhs, expr.kind, names, right=False)} "
                f"{_OPERATORS[expr.kind]} {_format_operand(expr.rhs, expr.kind, names, right=True)}"
            )
        case _:
            raise AssertionError(f"not an index expression: {expr}")


def _format_operand(
    expr: AffineExpr, parent: AffineBinaryOpKind, names: Sequence[str], *, right: bool
) -> str:
    text = format_index(expr, names)
    if not isinstance(expr, AffineBinaryOpExpr):
        return text
    tight = {AffineBinaryOpKind.Add: 0}
    inner, outer = tight.get(expr.kind, 1), tight.get(parent, 1)
    return f"({text})" if inner < outer or (right and inner == outer) else text


def parse_index(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    """Parses an index expression over the coordinates `names` and `rank`.

    `sum ::= product (`+` product)*`,
    `product ::= primary ((`*` | `mod` | `floordiv` | `ceildiv`) integer)*`,
    `primary ::= name | integer | `(` sum `)``.
    """
    expr = _parse_product(parser, names)
    for _ in range(MOST_TERMS):
        if not parser.parse_optional_punctuation("+"):
            return expr
        expr = expr + _parse_product(parser, names)
    parser.raise_error(f"expected at most {MOST_TERMS} terms in an index expression")


def _parse_product(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    expr = _parse_primary(parser, names)
    for _ in range(MOST_TERMS):
        if parser.parse_optional_punctuation("*"):
            start = parser.pos
            expr = expr * _constant(parser, parser.parse_integer(), start)
        elif parser.parse_optional_keyword("mod"):
            expr = expr % _parse_divisor(parser)
        elif parser.parse_optional_keyword("floordiv"):
            expr = expr // _parse_divisor(parser)
        elif parser.parse_optional_keyword("ceildiv"):
            expr = expr.ceil_div(_parse_divisor(parser))
        else:
            return expr
    parser.raise_error(f"expected at most {MOST_TERMS} factors in an index expression")


def _constant(parser: AttrParser, value: int, start: int) -> int:
    """Returns the constant `value`, parsed from position `start` on; raises if it is too large."""
    if abs(value) > MOST_CONSTANT:
        parser.raise_error(
            f"expected a number of at most {MOST_CONSTANT} in an index expression, found {value}",
            start,
            parser.pos,
        )
    return value


def _parse_divisor(parser: AttrParser) -> int:
    start = parser.pos
    value = _constant(parser, parser.parse_integer(), start)
    if value <= 0:
        parser.raise_error(f"expected a positive divisor, found {value}", start, parser.pos)
    return value


def _parse_primary(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    if parser.parse_optional_punctuation("("):
        expr = parse_index(parser, names)
        parser.parse_punctuation(")")
        return expr
    start = parser.pos
    if (value := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return AffineExpr.constant(_constant(parser, value, start))
    name = parser.parse_identifier(context_msg=" in an index expression")
    if name == RANK_NAME:
        return RANK
    if name not in names:
        some = names if len(names) <= 8 else [f"{names[0]} to {names[-1]}"]
        known = ", ".join([*some, RANK_NAME])
        parser.raise_error(
            f"unknown coordinate '{name}' in an index expression, expected one of {known}",
            start,
            parser.pos,
        )
    return AffineExpr.dimension(tuple(names).index(name))
