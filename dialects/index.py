"""Index expressions: affine functions of a task's grid point and of the rank.

They are xDSL affine expressions in which dimension `i` is the i-th coordinate of the grid point
and symbol 0 is the rank that runs the task. In text they carry the names of the coordinates:

```
(rank + p) mod 4
e floordiv 2
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

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

IntArray: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]

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


def default_names(count: int) -> tuple[str, ...]:
    """Names of coordinates where none were given: d0, d1, ..."""
    return tuple(f"d{i}" for i in range(count))


def walk_index(expr: AffineExpr) -> Iterator[AffineExpr]:
    """All sub-expressions of `expr`, itself first."""
    yield expr
    if isinstance(expr, AffineBinaryOpExpr):
        yield from walk_index(expr.lhs)
        yield from walk_index(expr.rhs)


def dims_used(expr: AffineExpr) -> set[int]:
    """The grid coordinates that `expr` depends on."""
    return {e.position for e in walk_index(expr) if isinstance(e, AffineDimExpr)}


def uses_rank(expr: AffineExpr) -> bool:
    """Whether `expr` depends on the rank."""
    return any(isinstance(e, AffineSymExpr) for e in walk_index(expr))


def evaluate_index(
    expr: AffineExpr, point: Sequence[IntArray | int], rank: IntArray | int
) -> IntArray | int:
    """Value of `expr` at a grid point, or at many when coordinates are arrays of equal shape.

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
    """All values of `expr` over a grid of these extents and all ranks, ascending."""
    used = sorted(dims_used(expr))
    shape = [*(extents[d] for d in used), ranks if uses_rank(expr) else 1]
    axes = np.indices(shape, dtype=np.int64)
    point: list[IntArray | int] = [0] * len(extents)
    for d, values in zip(used, axes, strict=False):
        point[d] = values
    return np.unique(np.broadcast_to(evaluate_index(expr, point, axes[-1]), shape))


def index_range(expr: AffineExpr, extents: Sequence[int], ranks: int) -> tuple[int, int]:
    """Lowest and highest value of `expr` over a grid and all ranks; (0, -1) where there is none."""
    values = index_values(expr, extents, ranks)
    return (int(values[0]), int(values[-1])) if values.size else (0, -1)


def format_index(expr: AffineExpr, names: Sequence[str]) -> str:
    """Text of `expr` with the coordinates' names; `parse_index` reads it back."""
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
    """Reads an index expression over the coordinates `names` and `rank`.

    `sum ::= product (`+` product)*`,
    `product ::= primary ((`*` | `mod` | `floordiv` | `ceildiv`) integer)*`,
    `primary ::= name | integer | `(` sum `)``.
    """
    expr = _parse_product(parser, names)
    while parser.parse_optional_punctuation("+"):
        expr = expr + _parse_product(parser, names)
    return expr


def _parse_product(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    expr = _parse_primary(parser, names)
    while True:
        if parser.parse_optional_punctuation("*"):
            expr = expr * parser.parse_integer()
        elif parser.parse_optional_keyword("mod"):
            expr = expr % _parse_divisor(parser)
        elif parser.parse_optional_keyword("floordiv"):
            expr = expr // _parse_divisor(parser)
        elif parser.parse_optional_keyword("ceildiv"):
            expr = expr.ceil_div(_parse_divisor(parser))
        else:
            return expr


def _parse_divisor(parser: AttrParser) -> int:
    start = parser.pos
    value = parser.parse_integer()
    if value <= 0:
        parser.raise_error(f"expected a positive divisor, found {value}", start, parser.pos)
    return value


def _parse_primary(parser: AttrParser, names: Sequence[str]) -> AffineExpr:
    if parser.parse_optional_punctuation("("):
        expr = parse_index(parser, names)
        parser.parse_punctuation(")")
        return expr
    if (value := parser.parse_optional_integer(allow_boolean=False)) is not None:
        return AffineExpr.constant(value)
    start = parser.pos
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
