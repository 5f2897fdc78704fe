"""Operations of expert layers on stand-in values: matmuls, permutations, all-to-alls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hpmoe_ir.frontends import stand_in_views as views
from hpmoe_ir.frontends.stand_in import (
    Array,
    Exact,
    Rows,
    UnsupportedOpError,
    Value,
    Weights,
)
from hpmoe_ir.frontends.stand_in_args import Args
from hpmoe_ir.frontends.stand_in_ops import OPS, Collective, Handler

GROUPED = ("GroupedMatmul", "GroupedMatmulV4")
PLAIN = ("MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt")


def _check_multiply(rows: Rows, weights: Weights) -> int:
    """Checks the operands of an expert matmul and returns the number of columns of its result."""
    if rows.flat or rows.multiplied > 1:
        raise UnsupportedOpError("it multiplies the experts' results once more")
    inner, outer = weights.shape[-2:]
    if rows.width != inner:
        raise UnsupportedOpError(
            f"it multiplies rows of {rows.width} with weights of {list(weights.shape)}"
        )
    return 2 if rows.multiplied == 0 and outer % 2 == 0 else 1


def _plain_matmul(args: Args) -> Sequence[Value]:
    rows, weights = args.rows(0), args.weights(1)
    if args.flag(2):
        raise UnsupportedOpError("it transposes the rows")
    if args.flag(3):
        swapped = views.swap_axes(weights, -1, -2)
        assert isinstance(swapped, Weights)
        weights = swapped
    columns = _check_multiply(rows, weights)
    return [
        Rows(weights.multiply(rows, columns), weights.shape[-1], multiplied=rows.multiplied + 1)
    ]


def _grouped_matmul(args: Args) -> Sequence[Value]:
    """Multiplies the rows of each group with the weights of its expert.

    The groups are given by their ends, or by their sizes in some cases of GroupedMatmulV4.
    """
    later = args.op.kind == "GroupedMatmulV4"
    groups, split, kind = (8, 12, 13) if later else (7, 8, 9)
    rows, weights = args.only(0), args.only(1)
    if not isinstance(rows, Rows) or not isinstance(weights, Weights) or len(rows.lead) != 1:
        raise UnsupportedOpError("expected rows and expert weights")
    if weights.expert_ids is None or weights.expert_ids.ndim != 1:
        raise UnsupportedOpError(f"expected weights [experts, in, out], found {weights.shape}")
    given = [i for i in range(2, split) if i != groups and args.at(i) is not None]
    if given:
        raise UnsupportedOpError(f"operand {given[0]}: expected no bias and no scale")
    if args.number(kind, -1) != 0:
        raise UnsupportedOpError(
            f"expected groups of rows, found group type {args.number(kind, -1)}"
        )
    sizes = args.exact(groups).array.reshape(-1)
    if not later:
        if args.flag(10):
            raise UnsupportedOpError("it transposes the rows")
        if args.flag(11):
            weights = views.swap_axes(weights, -1, -2)
            assert isinstance(weights, Weights)
            assert weights.expert_ids is not None
    counted = later and args.number(14, 0) == 1
    ends = np.cumsum(sizes) if counted else sizes
    if ends.shape != weights.expert_ids.shape or (np.diff(ends) < 0).any():
        raise UnsupportedOpError("the groups' ends do not increase or do not match the experts")
    columns = _check_multiply(rows, weights)
    group = np.searchsorted(ends, np.arange(rows.lead[0]), side="right")
    inside = group < len(ends)
    table = replace(weights, expert_ids=weights.expert_ids[np.where(inside, group, 0)])
    one_each = rows.with_values(rows.values[:, None, :])
    product = table.multiply(one_each, columns)[:, 0, :]
    # Rows past the last group are not computed; NaN makes any use of them visible.
    product[~inside] = np.nan
    return [Rows(product, weights.shape[-1], multiplied=rows.multiplied + 1)]


def _token_permute(args: Args) -> Sequence[Value]:
    """Returns copies of the rows sorted by expert, and the position of each (token, k)."""
    rows, ids = args.rows(0), args.exact(1).array
    if args.at(2) is not None or args.flag(3):
        raise UnsupportedOpError("it drops or pads rows")
    if ids.shape[0] != rows.lead[0] or len(rows.lead) != 1:
        raise UnsupportedOpError(f"it permutes {rows.lead[0]} rows by {ids.shape[0]} ids")
    top_k = ids.size // max(1, ids.shape[0])
    order = np.argsort(ids.reshape(-1), kind="stable")
    positions = np.argsort(order, kind="stable")
    return [rows.with_values(rows.values[order // top_k]), Exact(positions)]


def _token_unpermute(args: Args) -> Sequence[Value]:
    """Returns the rows in (token, k) order, or their weighted sums per token with weights."""
    rows, positions = args.rows(0), args.exact(1).array.astype(np.int64)
    if args.flag(3) or args.at(4) is not None:
        raise UnsupportedOpError("it pads rows")
    token_rows = rows.with_values(rows.values[positions])
    if args.at(2) is None:
        return [token_rows]
    weights = args.exact(2).array
    copies = token_rows.values.reshape(*weights.shape, rows.columns)
    return [token_rows.with_values((copies * weights[..., None]).sum(axis=1))]


EXPERT_OPS: dict[str, Handler] = {
    **OPS,
    **{kind: _plain_matmul for kind in PLAIN},
    **{kind: _grouped_matmul for kind in GROUPED},
    "MoeTokenPermute": _token_permute,
    "InnerMoeTokenUnpermute": _token_unpermute,
}
"""The supported primitives that a rank evaluates by itself."""


def _parts(args: Args, sizes: Array) -> list[Value]:
    """Splits the flat operand 0 into parts of `sizes` blocks."""
    value, block = args.value(0), int(args.op.attributes.get("block_size", 1))
    ends = np.cumsum(sizes)
    if isinstance(value, Exact):
        if value.array.ndim != 1 or value.array.size != ends[-1] * block:
            raise UnsupportedOpError(f"it sends {ends[-1]} blocks of {value.array.size} elements")
        return [Exact(part) for part in np.split(value.array, ends[:-1] * block)]
    rows = args.rows(0)
    values = rows.values.reshape(-1, rows.columns)
    if not rows.flat or rows.width != block or len(values) != ends[-1]:
        raise UnsupportedOpError(f"it sends {ends[-1]} blocks of {block} of rows of {rows.width}")
    return [rows.with_values(part) for part in np.split(values, ends[:-1])]


def _all_to_all_rows(ranks: Sequence[Args]) -> Sequence[Sequence[Value]]:
    """AlltoAllV: part s of the result on rank r is part r of rank s."""
    sent = [args.exact(1).array.astype(np.int64).reshape(-1) for args in ranks]
    parts = [_parts(args, sizes) for args, sizes in zip(ranks, sent, strict=True)]
    results: list[list[Value]] = []
    for rank, args in enumerate(ranks):
        expected = args.exact(2).array.astype(np.int64).reshape(-1)
        arriving = np.array([sizes[rank] for sizes in sent])
        if len(expected) != len(ranks) or (expected != arriving).any():
            raise UnsupportedOpError("it expects other sizes than are sent")
        pieces = [part[rank] for part in parts]
        joined = [replace(p, flat=False) if isinstance(p, Rows) else p for p in pieces]
        whole = views.concat(joined, 0)
        results.append([replace(whole, flat=True) if isinstance(whole, Rows) else whole])
    return results


def _all_to_all(ranks: Sequence[Args]) -> Sequence[Sequence[Value]]:
    """AlltoAll: exchanges equal parts along `split_dim` and concatenates along `concat_dim`."""
    attributes = ranks[0].op.attributes
    count = int(attributes["split_count"])
    if count != len(ranks):
        raise UnsupportedOpError(f"it exchanges among {count} of {len(ranks)} ranks")
    parts = [views.split(args.value(0), int(attributes["split_dim"]), count) for args in ranks]
    axis = int(attributes["concat_dim"])
    return [[views.concat([part[rank] for part in parts], axis)] for rank in range(len(ranks))]


COLLECTIVES: dict[str, Collective] = {
    "AlltoAllV": _all_to_all_rows,
    "AlltoAll": _all_to_all,
}
"""The supported collectives, evaluated for all ranks together."""
