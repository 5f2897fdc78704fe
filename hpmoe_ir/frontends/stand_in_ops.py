"""MindSpore's primitives on stand-in values: a table from primitive to evaluation function.

A primitive that is not in the table is unsupported in an expert layer. To add one, write a function
from `Args` to the results and enter it in `OPS`, or in `COLLECTIVES` if it is a collective.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hpmoe_ir.frontends import stand_in_views as views
from hpmoe_ir.frontends.stand_in import (
    Array,
    Exact,
    Rows,
    UnsupportedOpError,
    Value,
    as_rows,
    check_elements,
)
from hpmoe_ir.frontends.stand_in_args import Args, as_value, kind_of

Handler: TypeAlias = Callable[[Args], Sequence[Value]]
Collective: TypeAlias = Callable[[Sequence[Args]], Sequence[Sequence[Value]]]


def _identity(args: Args) -> Sequence[Value]:
    return [args.value(0)]


def _cast(args: Args) -> Sequence[Value]:
    """Casts without rounding: the layer defines its own roundings, not the graph."""
    value = args.value(0)
    if not isinstance(value, Exact) or not args.op.results:
        return [value]
    result = args.op.results[0]
    if result.is_float:
        return [Exact(value.array.astype(np.float64))]
    return [Exact(value.array.astype(bool if result.element == "i1" else np.int64))]


def _elementwise(function: Callable[[Array, Array], Array], mixes: bool) -> Handler:
    """Returns the handler of an elementwise binary function; `mixes` allows rows as operands."""

    def apply(args: Args) -> Sequence[Value]:
        a, b = args.value(0), args.value(1)
        if isinstance(a, Exact) and isinstance(b, Exact):
            return [Exact(np.asarray(function(a.array, b.array)))]
        rows = a if isinstance(a, Rows) else b
        if not mixes or not isinstance(rows, Rows):
            raise UnsupportedOpError(f"it takes {kind_of(a)} and {kind_of(b)}")
        left, right = (as_rows(v, rows) if isinstance(v, Exact) else v for v in (a, b))
        if not isinstance(left, Rows) or not isinstance(right, Rows):
            raise UnsupportedOpError(f"it takes {kind_of(a)} and {kind_of(b)}")
        kind = (left.width, left.columns, left.multiplied, left.flat)
        if kind != (right.width, right.columns, right.multiplied, right.flat):
            raise UnsupportedOpError("it takes two different kinds of rows")
        return [rows.with_values(function(left.values, right.values))]

    return apply


def _scaled_add(sign: int) -> Handler:
    """AddExt and SubExt: a + alpha * b."""
    add = _elementwise(lambda a, b: a + sign * b, mixes=True)

    def apply(args: Args) -> Sequence[Value]:
        if args.at(2, 1) != 1:
            raise UnsupportedOpError(f"operand 2: expected 1, found {kind_of(args.at(2))}")
        return add(args)

    return apply


def _add_all(args: Args) -> Sequence[Value]:
    items = args.at(0)
    parts = items if isinstance(items, tuple) else args.operands
    add = _elementwise(np.add, mixes=True)
    total = parts[0]
    for part in parts[1:]:
        total = add(Args(args.op, (total, part)))[0]
    return [as_value(total, 0)]


def _unary(function: Callable[[Array], Array], of_experts: bool) -> Handler:
    """Returns the handler of an elementwise unary function.

    `of_experts` allows rows between the two matmuls of an expert as operand.
    """

    def apply(args: Args) -> Sequence[Value]:
        value = args.value(0)
        if isinstance(value, Exact):
            return [Exact(function(value.array))]
        if isinstance(value, Rows) and of_experts and value.multiplied == 1:
            return [value.with_values(function(value.values))]
        raise UnsupportedOpError(f"it takes {kind_of(value)}")

    return apply


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _swiglu(args: Args) -> Sequence[Value]:
    rows = args.rows(0)
    axis = args.number(1, -1) % len(rows.shape)
    if rows.multiplied != 1 or rows.columns != 2 or axis != len(rows.shape) - 1:
        raise UnsupportedOpError("it takes rows that are not the result of one expert matmul")
    gate, up = rows.values[..., :1], rows.values[..., 1:]
    return [replace(rows, values=gate * _sigmoid(gate) * up, width=rows.width // 2)]


def _reduce_sum(args: Args) -> Sequence[Value]:
    value, keep = args.value(0), args.flag(2)
    axes = args.numbers(1)
    if isinstance(value, Rows):
        lead_axes = tuple(views.lead_axis(value, axis) for axis in axes)
        if not lead_axes:
            raise UnsupportedOpError("it adds up the elements of rows")
        return [value.with_values(value.values.sum(axis=lead_axes, keepdims=keep))]
    array = args.exact(0).array
    summed = tuple(axes) if axes else None
    return [Exact(np.asarray(array.sum(axis=summed, keepdims=keep)))]


def _cumulative_sum(args: Args) -> Sequence[Value]:
    array, axis = args.exact(0).array, args.number(1)
    if args.op.kind == "CumSum" and (args.flag(2) or args.flag(3)):
        exclusive, backwards = args.flag(2), args.flag(3)
        flipped = np.flip(array, axis) if backwards else array
        total = np.cumsum(flipped, axis) - (flipped if exclusive else 0)
        return [Exact(np.flip(total, axis) if backwards else total)]
    return [Exact(np.cumsum(array, axis))]


def _sort(args: Args) -> Sequence[Value]:
    """Sort, SortExt, ArgSort: stable sorts."""
    array = args.exact(0).array
    axis, descending = args.number(1, -1), args.flag(2)
    if args.op.kind == "Sort":
        axis = int(args.op.attributes.get("axis", -1))
        descending = bool(args.op.attributes.get("descending", False))
    order = np.argsort(-array if descending else array, axis, kind="stable")
    if args.op.kind == "ArgSort":
        return [Exact(order)]
    return [Exact(np.take_along_axis(array, order, axis)), Exact(order)]


def _one_hot(args: Args) -> Sequence[Value]:
    array, depth = args.exact(0).array.astype(np.int64), args.number(1)
    on, off, axis = args.exact(2).array, args.exact(3).array, args.number(4, -1)
    check_elements((*array.shape, depth))
    hot = np.where(array[..., None] == np.arange(depth), on, off)
    return [Exact(np.moveaxis(hot, -1, axis))]


def _gather(args: Args) -> Sequence[Value]:
    """Gather and IndexSelect, which order their operands differently."""
    if args.op.kind == "Gather":
        if args.number(3, 0) != 0:
            raise UnsupportedOpError("it gathers by batches")
        return [views.gather(args.value(0), args.exact(1), args.number(2))]
    return [views.gather(args.value(0), args.exact(2), args.number(1))]


def _gather_along(args: Args) -> Sequence[Value]:
    array, index = args.exact(0).array, args.exact(2).array
    return [Exact(np.take_along_axis(array, index.astype(np.int64), args.number(1)))]


def _slice(args: Args) -> Sequence[Value]:
    begin, end, strides = (args.numbers(i) for i in (1, 2, 3))
    masks = [args.number(i, 0) for i in range(4, 9)]
    return [views.strided_slice(args.value(0), begin, end, strides, masks)]


def _slice_axis(args: Args) -> Sequence[Value]:
    value, axis = args.value(0), args.number(1)
    key: views.Key = [slice(None)] * len(views.shape_of(value))
    key[axis] = slice(args.number(2), args.number(3), args.number(4, 1))
    return [views.index(value, key)]


def _chunk(args: Args) -> Sequence[Value]:
    return views.split(args.value(0), args.number(2, 0), args.number(1))


def _split(args: Args) -> Sequence[Value]:
    return views.split(args.value(0), args.number(1), args.number(2))


def _split_sizes(args: Args) -> Sequence[Value]:
    """SplitTensor and SplitWithSize, supported for equal parts only."""
    value, axis = args.value(0), args.number(2, 0)
    sizes = args.numbers(1)
    if len(set(sizes)) != 1 or views.shape_of(value)[axis] % sizes[0]:
        raise UnsupportedOpError("it splits into unequal parts")
    return views.split(value, axis, views.shape_of(value)[axis] // sizes[0])


def _concat(args: Args) -> Sequence[Value]:
    items = args.at(0)
    if not isinstance(items, tuple):
        raise UnsupportedOpError("operand 0: expected a list of tensors")
    return [views.concat([as_value(item, 0) for item in items], args.number(1))]


def _broadcast(args: Args) -> Sequence[Value]:
    value, target = args.value(0), args.numbers(1)
    shape = views.shape_of(value)
    full = [1] * (len(target) - len(shape)) + list(shape)
    target = [m if n == -1 else n for n, m in zip(target, full, strict=True)]
    check_elements(target)
    if isinstance(value, Rows) and target[-1] == value.width:
        return [value.with_values(np.broadcast_to(value.values, (*target[:-1], value.columns)))]
    return [Exact(np.broadcast_to(args.exact(0).array, target))]


def _tile(args: Args) -> Sequence[Value]:
    value, repeats = args.value(0), args.numbers(1)
    check_elements((*views.shape_of(value), *repeats))
    if isinstance(value, Rows) and repeats[-1] == 1:
        return [value.with_values(np.tile(value.values, repeats))]
    return [Exact(np.tile(args.exact(0).array, repeats))]


def _select(args: Args) -> Sequence[Value]:
    condition, a, b = args.exact(0).array, args.value(1), args.value(2)
    rows = a if isinstance(a, Rows) else b
    if isinstance(rows, Rows):
        mask = as_rows(Exact(condition), rows).values != 0
        left, right = (as_rows(v, rows) if isinstance(v, Exact) else v for v in (a, b))
        if isinstance(left, Rows) and isinstance(right, Rows):
            return [rows.with_values(np.where(mask, left.values, right.values))]
    return [Exact(np.where(condition, args.exact(1).array, args.exact(2).array))]


def _scatter_add(args: Args) -> Sequence[Value]:
    """TensorScatterAdd, supported for one index per row."""
    index, updates = args.exact(1).array.astype(np.int64), args.rows(2)
    start = args.value(0)
    base = as_rows(start, updates) if isinstance(start, Exact) else args.rows(0)
    if index.shape != (*updates.lead, 1) or len(base.lead) != 1:
        raise UnsupportedOpError("it does not add up whole rows")
    return [_add_at(base, index[..., 0], updates)]


def _index_add(args: Args) -> Sequence[Value]:
    """IndexAddExt: adds the rows of operand 3 to the rows of operand 0 at indices operand 2."""
    index, updates = args.exact(2).array.astype(np.int64), args.rows(3)
    start = args.value(0)
    base = as_rows(start, updates) if isinstance(start, Exact) else args.rows(0)
    if args.number(1) != 0 or args.at(4, 1) != 1 or len(base.lead) != 1:
        raise UnsupportedOpError("it does not add up whole rows")
    return [_add_at(base, index, updates)]


def _segment_sum(args: Args) -> Sequence[Value]:
    updates, index = args.rows(0), args.exact(1).array.astype(np.int64)
    check_elements((args.number(2), updates.columns))
    zeros = np.zeros((args.number(2), updates.columns))
    return [_add_at(updates.with_values(zeros), index, updates)]


def _add_at(base: Rows, index: Array, updates: Rows) -> Rows:
    values = np.array(base.values)
    np.add.at(values, index.reshape(-1), updates.values.reshape(-1, updates.columns))
    return replace(updates, values=values)


OPS: dict[str, Handler] = {
    "Cast": _cast,
    "MoveTo": _identity,
    "StopGradient": _identity,
    "Reshape": lambda args: [views.reshape(args.value(0), args.numbers(1))],
    "Transpose": lambda args: [views.transpose(args.value(0), args.numbers(1))],
    "TransposeExtView": lambda args: [
        views.swap_axes(args.value(0), args.number(1), args.number(2))
    ],
    "ExpandDims": lambda args: [views.expand_dims(args.value(0), args.number(1))],
    "Squeeze": lambda args: [views.squeeze(args.value(0), args.numbers(1))],
    "BroadcastTo": _broadcast,
    "Tile": _tile,
    "Concat": _concat,
    "Split": _split,
    "SplitTensor": _split_sizes,
    "SplitWithSize": _split_sizes,
    "Chunk": _chunk,
    "StridedSlice": _slice,
    "SliceExt": _slice_axis,
    "Gather": _gather,
    "IndexSelect": _gather,
    "GatherD": _gather_along,
    "Sort": _sort,
    "SortExt": _sort,
    "ArgSort": _sort,
    "OneHot": _one_hot,
    "OneHotExt": _one_hot,
    "ReduceSum": _reduce_sum,
    "SumExt": _reduce_sum,
    "CumSum": _cumulative_sum,
    "CumsumExt": _cumulative_sum,
    "Add": _elementwise(np.add, mixes=True),
    "AddExt": _scaled_add(1),
    "AddN": _add_all,
    "Sub": _elementwise(np.subtract, mixes=False),
    "SubExt": _scaled_add(-1),
    "Mul": _elementwise(np.multiply, mixes=True),
    "Muls": _elementwise(np.multiply, mixes=True),
    "FloorDiv": _elementwise(np.floor_divide, mixes=False),
    "FloorDivScalar": _elementwise(np.floor_divide, mixes=False),
    "FloorMod": _elementwise(np.mod, mixes=False),
    "FmodScalar": _elementwise(np.fmod, mixes=False),
    "RemainderTensorScalar": _elementwise(np.mod, mixes=False),
    "Equal": _elementwise(np.equal, mixes=False),
    "EqScalar": _elementwise(np.equal, mixes=False),
    "Neg": _unary(np.negative, of_experts=False),
    "SiLU": _unary(lambda x: x * _sigmoid(x), of_experts=True),
    "Sigmoid": _unary(_sigmoid, of_experts=True),
    "Swiglu": _swiglu,
    "Select": _select,
    "TensorScatterAdd": _scatter_add,
    "IndexAddExt": _index_add,
    "UnsortedSegmentSum": _segment_sum,
}
