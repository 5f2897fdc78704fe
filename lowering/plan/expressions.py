"""Integer expressions of a plan; numbers that come from shapes are words of the task table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir.affine import AffineBinaryOpKind

from hpmoe_ir.lowering.plan.sizes import Size


@dataclass(frozen=True)
class Number:
    """A constant of the program's structure, printed literally in the code."""

    value: int


@dataclass(frozen=True)
class Coordinate:
    """A coordinate of the task's grid point."""

    name: str


@dataclass(frozen=True)
class OwnRank:
    """The rank that runs the code."""


@dataclass(frozen=True)
class SourceRank:
    """The source rank of the puts that a credit counts."""


@dataclass(frozen=True)
class PeerRank:
    """The rank that the task writes to, `FamilyPlan.peer`."""


@dataclass(frozen=True)
class ExpertOfTile:
    """The local expert of a tile of rows, which the route gives."""

    tile: str
    """Name of the tile's definition."""


@dataclass(frozen=True)
class Binary:
    """An operation on unsigned 32-bit numbers; divisions round down, `CeilDiv` rounds up."""

    kind: AffineBinaryOpKind
    lhs: IntExpr
    rhs: IntExpr


IntExpr: TypeAlias = (
    Number | Coordinate | OwnRank | SourceRank | PeerRank | ExpertOfTile | Size | Binary
)


@dataclass(frozen=True)
class FlatIndex:
    """The row-major number of a multi-dimensional index."""

    indices: tuple[IntExpr, ...]
    extents: tuple[Size, ...]
    """Extents of all dimensions but the first."""
