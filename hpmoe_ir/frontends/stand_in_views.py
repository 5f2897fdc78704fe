"""Operations that move or select elements without arithmetic, on stand-in values.

Each raises UnsupportedOpError where it would mix the elements of rows or of expert weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from hpmoe_ir.frontends.stand_in import Exact, Rows, UnsupportedOpError, Value, Weights

Key: TypeAlias = list[slice | int | EllipsisType | None]


def resolve(shape: Sequence[int], elements: int) -> tuple[int, ...]:
    """Returns `shape` with its -1 replaced so that it has `elements` elements."""
    known = int(np.prod([n for n in shape if n != -1], dtype=np.int64))
    left = elements // known if known else 0
    result = tuple(left if n == -1 else n for n in shape)
    if int(np.prod(result, dtype=np.int64)) != elements:
        raise UnsupportedOpError(f"it makes {list(shape)} of {elements} elements")
    return result


def reshape(value: Value, shape: Sequence[int]) -> Value:
    """Reshapes a value; leading axes freely, the last axis of rows at most into its halves."""
    match value:
        case Exact(array):
            return Exact(array.reshape(resolve(shape, array.size)))
        case Rows():
            return _reshape_rows(value, shape)
        case Weights():
            return _reshape_weights(value, shape)


def _reshape_rows(rows: Rows, shape: Sequence[int]) -> Rows:
    target = resolve(shape, int(np.prod(rows.lead, dtype=np.int64)) * rows.width)
    if len(target) == 1:
        return replace(rows, flat=True)
    if target and target[-1] == rows.width:
        values = rows.values.reshape(*target[:-1], rows.columns)
        return replace(rows, values=values, flat=False)
    if rows.columns == 2 and target[-2:] == (2, rows.width // 2):
        return replace(rows, values=rows.values.reshape(*target[:-1], 1), width=rows.width // 2)
    raise UnsupportedOpError(f"it makes {list(target)} of {list(rows.shape)}, which divides rows")


def _reshape_weights(weights: Weights, shape: Sequence[int]) -> Weights:
    target = resolve(shape, int(np.prod(weights.shape, dtype=np.int64)))
    if weights.expert_ids is None and len(target) == 3:
        return replace(weights, shape=target, expert_ids=np.arange(target[0]), experts=target[0])
    if weights.expert_ids is not None and target[-2:] == weights.shape[-2:]:
        return replace(weights, shape=target, expert_ids=weights.expert_ids.reshape(target[:-2]))
    if weights.expert_ids is None and target == weights.shape:
        return weights
    raise UnsupportedOpError(
        f"it makes {list(target)} of the weights '{weights.name}' of {list(weights.shape)}"
    )


def transpose(value: Value, order: Sequence[int]) -> Value:
    """Permutes axes; the last axis of rows stays last, weights may swap their last two."""
    match value:
        case Exact(array):
            return Exact(array.transpose(*order))
        case Rows():
            axes = [axis % len(value.shape) for axis in order]
            if value.flat or axes[-1] != len(axes) - 1:
                raise UnsupportedOpError("it moves the last axis of the rows")
            return value.with_values(value.values.transpose(*axes))
        case Weights(shape=shape, expert_ids=expert_ids):
            axes = [axis % len(shape) for axis in order]
            last = len(shape) - 2
            if expert_ids is None or axes[:last] != list(range(last)):
                raise UnsupportedOpError(f"it transposes the weights '{value.name}' as a whole")
            swap = axes[last] != last
            target = (*shape[:last], shape[axes[-2]], shape[axes[-1]])
            return replace(value, shape=target, transposed=value.transposed != swap)


def swap_axes(value: Value, first: int, second: int) -> Value:
    """Swaps two axes."""
    order = list(range(len(shape_of(value))))
    order[first], order[second] = order[second], order[first]
    return transpose(value, order)


def shape_of(value: Value) -> tuple[int, ...]:
    """Returns the shape of the tensor that a value represents."""
    return tuple(value.array.shape) if isinstance(value, Exact) else value.shape


def expand_dims(value: Value, axis: int) -> Value:
    """Inserts an axis of extent 1."""
    shape = list(shape_of(value))
    shape.insert(axis % (len(shape) + 1), 1)
    if isinstance(value, Rows) and axis % len(shape) == len(shape) - 1:
        raise UnsupportedOpError("it divides rows")
    return reshape(value, shape)


def squeeze(value: Value, axes: Sequence[int]) -> Value:
    """Removes the axes of extent 1 in `axes`, all of them if it is empty."""
    shape = shape_of(value)
    chosen = {axis % len(shape) for axis in axes} or {i for i, n in enumerate(shape) if n == 1}
    return reshape(value, [n for i, n in enumerate(shape) if i not in chosen])


def lead_axis(rows: Rows, axis: int) -> int:
    """Returns `axis` as a non-negative number; the last axis of rows is unsupported."""
    axis %= len(rows.lead) + 1
    if rows.flat or axis == len(rows.lead):
        raise UnsupportedOpError("it works along the elements of a row")
    return axis


def gather(value: Value, index: Exact, axis: int) -> Value:
    """Gathers slices of `value` along `axis`, one for each element of `index`."""
    indices = index.array.astype(np.int64)
    match value:
        case Exact(array):
            return Exact(np.take(array, indices, axis))
        case Rows():
            return value.with_values(np.take(value.values, indices, lead_axis(value, axis)))
        case Weights(expert_ids=expert_ids, shape=shape):
            if expert_ids is None or axis % len(shape) != 0:
                raise UnsupportedOpError(f"it takes parts of the matrices of '{value.name}'")
            taken = np.take(expert_ids, indices, 0)
            return replace(value, expert_ids=taken, shape=(*taken.shape, *shape[-2:]))


def strided_slice(
    value: Value,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    masks: Sequence[int],
) -> Value:
    """Slices as StridedSlice does.

    `masks` are those of begin, end, ellipsis, new axis and shrink axis, with a bit per entry.
    """
    at_begin, at_end, ellipsis, new_axis, shrink = masks
    key: Key = []
    for i, (first, last, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if ellipsis & bit:
            key.append(...)
        elif new_axis & bit:
            key.append(None)
        elif shrink & bit:
            key.append(first)
        else:
            start = None if at_begin & bit else first
            stop = None if at_end & bit else last
            key.append(slice(start, stop, step))
    return index(value, key)


def index(value: Value, key: Key) -> Value:
    """Returns `value[key]` as NumPy does."""
    if isinstance(value, Exact):
        return Exact(value.array[tuple(key)])
    rank = len(shape_of(value))
    used = sum(k is not None and k is not ... for k in key)
    middle: Key = [slice(None)] * (rank - used)
    at = key.index(...) if ... in key else len(key)
    full = [*key[:at], *middle, *key[at + 1 :]]
    if isinstance(value, Rows):
        return _index_rows(value, full)
    whole = [k for k in full[-2:] if isinstance(k, slice)]
    kept = [k.indices(n) for k, n in zip(whole, value.shape[-2:], strict=False)]
    if value.expert_ids is None or kept != [(0, n, 1) for n in value.shape[-2:]]:
        raise UnsupportedOpError(f"it takes parts of the matrices of '{value.name}'")
    expert_ids = np.asarray(value.expert_ids[tuple(full[:-2])])
    return replace(value, expert_ids=expert_ids, shape=(*expert_ids.shape, *value.shape[-2:]))


def _index_rows(rows: Rows, key: Key) -> Rows:
    last = key[-1]
    if rows.flat or not isinstance(last, slice):
        raise UnsupportedOpError("it takes single elements of rows")
    start, stop, step = last.indices(rows.width)
    lead = rows.values[(*key[:-1], slice(None))]
    if (start, stop, step) == (0, rows.width, 1):
        return rows.with_values(lead)
    half = rows.width // 2
    if rows.columns == 2 and step == 1 and (start, stop) in ((0, half), (half, 2 * half)):
        column = 0 if start == 0 else 1
        return replace(rows, values=lead[..., column : column + 1], width=half)
    raise UnsupportedOpError(f"it takes elements {start} to {stop} of rows of {rows.width}")


def split(value: Value, axis: int, parts: int) -> tuple[Value, ...]:
    """Splits a value into equal parts along `axis`."""
    extent = shape_of(value)[axis]
    if extent % parts:
        raise UnsupportedOpError(f"it splits {extent} into {parts} parts")
    size = extent // parts
    rank = len(shape_of(value))
    result: list[Value] = []
    for part in range(parts):
        key: Key = [slice(None)] * rank
        key[axis % rank] = slice(part * size, (part + 1) * size, 1)
        result.append(index(value, key))
    return tuple(result)


def concat(values: Sequence[Value], axis: int) -> Value:
    """Concatenates exact values, or rows, along `axis`."""
    exact = [value.array for value in values if isinstance(value, Exact)]
    if len(exact) == len(values):
        return Exact(np.concatenate(exact, axis))
    rows = [value for value in values if isinstance(value, Rows)]
    if len(rows) != len(values):
        raise UnsupportedOpError("it joins tensors of different kinds")
    first = rows[0]
    if any((r.width, r.columns) != (first.width, first.columns) for r in rows):
        raise UnsupportedOpError("it joins rows of different widths")
    at = lead_axis(first, axis)
    return first.with_values(np.concatenate([r.values for r in rows], at))
