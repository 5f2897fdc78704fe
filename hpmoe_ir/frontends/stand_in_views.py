"""Shapes and places: the operations that move elements without computing, on stand-in values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import EllipsisType
from typing import TypeAlias

import numpy as np

from hpmoe_ir.frontends.stand_in import CannotPlaceError, Exact, Rows, Value, Weights

Key: TypeAlias = list[slice | int | EllipsisType | None]


def resolve(shape: Sequence[int], elements: int) -> tuple[int, ...]:
    """`shape` with its -1 replaced by what is left of `elements`."""
    known = int(np.prod([n for n in shape if n != -1], dtype=np.int64))
    left = elements // known if known else 0
    result = tuple(left if n == -1 else n for n in shape)
    if int(np.prod(result, dtype=np.int64)) != elements:
        raise CannotPlaceError(f"it makes {list(shape)} of {elements} elements")
    return result


def reshape(value: Value, shape: Sequence[int]) -> Value:
    """Reshape; rows may be joined and divided, elements within a row only into its halves."""
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
        stand = rows.stand.reshape(*target[:-1], rows.columns)
        return replace(rows, stand=stand, flat=False)
    if rows.columns == 2 and target[-2:] == (2, rows.width // 2):
        return replace(rows, stand=rows.stand.reshape(*target[:-1], 1), width=rows.width // 2)
    raise CannotPlaceError(f"it makes {list(target)} of {list(rows.shape)}, which divides rows")


def _reshape_weights(weights: Weights, shape: Sequence[int]) -> Weights:
    target = resolve(shape, int(np.prod(weights.shape, dtype=np.int64)))
    if weights.picked is None and len(target) == 3:
        return replace(weights, shape=target, picked=np.arange(target[0]), experts=target[0])
    if weights.picked is not None and target[-2:] == weights.shape[-2:]:
        return replace(weights, shape=target, picked=weights.picked.reshape(target[:-2]))
    if weights.picked is None and target == weights.shape:
        return weights
    raise CannotPlaceError(
        f"it makes {list(target)} of the weights '{weights.name}' of {list(weights.shape)}"
    )


def transpose(value: Value, order: Sequence[int]) -> Value:
    """Transpose; the last axis of rows stays last, weights may exchange their last two."""
    match value:
        case Exact(array):
            return Exact(array.transpose(*order))
        case Rows():
            axes = [axis % len(value.shape) for axis in order]
            if value.flat or axes[-1] != len(axes) - 1:
                raise CannotPlaceError("it moves the last axis of the rows")
            return value.with_stand(value.stand.transpose(*axes))
        case Weights(shape=shape, picked=picked):
            axes = [axis % len(shape) for axis in order]
            last = len(shape) - 2
            if picked is None or axes[:last] != list(range(last)):
                raise CannotPlaceError(f"it transposes the weights '{value.name}' as a whole")
            swap = axes[last] != last
            target = (*shape[:last], shape[axes[-2]], shape[axes[-1]])
            return replace(value, shape=target, transposed=value.transposed != swap)


def swap_axes(value: Value, first: int, second: int) -> Value:
    """Transpose of two axes."""
    order = list(range(len(shape_of(value))))
    order[first], order[second] = order[second], order[first]
    return transpose(value, order)


def shape_of(value: Value) -> tuple[int, ...]:
    """Shape of the tensor that a value stands for."""
    return tuple(value.array.shape) if isinstance(value, Exact) else value.shape


def expand_dims(value: Value, axis: int) -> Value:
    """A new axis of extent 1."""
    shape = list(shape_of(value))
    shape.insert(axis % (len(shape) + 1), 1)
    if isinstance(value, Rows) and axis % len(shape) == len(shape) - 1:
        raise CannotPlaceError("it divides rows")
    return reshape(value, shape)


def squeeze(value: Value, axes: Sequence[int]) -> Value:
    """Axes of extent 1 gone; without `axes`, all of them."""
    shape = shape_of(value)
    chosen = {axis % len(shape) for axis in axes} or {i for i, n in enumerate(shape) if n == 1}
    return reshape(value, [n for i, n in enumerate(shape) if i not in chosen])


def lead_axis(rows: Rows, axis: int) -> int:
    """`axis` counted from the front; refused if it is the last of the rows."""
    axis %= len(rows.lead) + 1
    if rows.flat or axis == len(rows.lead):
        raise CannotPlaceError("it works along the elements of a row")
    return axis


def gather(value: Value, index: Exact, axis: int) -> Value:
    """Slices of `value` along `axis`, one for each element of `index`."""
    places = index.array.astype(np.int64)
    match value:
        case Exact(array):
            return Exact(np.take(array, places, axis))
        case Rows():
            return value.with_stand(np.take(value.stand, places, lead_axis(value, axis)))
        case Weights(picked=picked, shape=shape):
            if picked is None or axis % len(shape) != 0:
                raise CannotPlaceError(f"it takes parts of the matrices of '{value.name}'")
            taken = np.take(picked, places, 0)
            return replace(value, picked=taken, shape=(*taken.shape, *shape[-2:]))


def strided_slice(
    value: Value,
    begin: Sequence[int],
    end: Sequence[int],
    strides: Sequence[int],
    masks: Sequence[int],
) -> Value:
    """StridedSlice; `masks` are begin, end, ellipsis, new axis, shrink axis, one bit an entry."""
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
    """`value[key]` as in NumPy."""
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
    if value.picked is None or kept != [(0, n, 1) for n in value.shape[-2:]]:
        raise CannotPlaceError(f"it takes parts of the matrices of '{value.name}'")
    picked = np.asarray(value.picked[tuple(full[:-2])])
    return replace(value, picked=picked, shape=(*picked.shape, *value.shape[-2:]))


def _index_rows(rows: Rows, key: Key) -> Rows:
    last = key[-1]
    if rows.flat or not isinstance(last, slice):
        raise CannotPlaceError("it takes single elements of rows")
    start, stop, step = last.indices(rows.width)
    lead = rows.stand[(*key[:-1], slice(None))]
    if (start, stop, step) == (0, rows.width, 1):
        return rows.with_stand(lead)
    half = rows.width // 2
    if rows.columns == 2 and step == 1 and (start, stop) in ((0, half), (half, 2 * half)):
        column = 0 if start == 0 else 1
        return replace(rows, stand=lead[..., column : column + 1], width=half)
    raise CannotPlaceError(f"it takes elements {start} to {stop} of rows of {rows.width}")


def split(value: Value, axis: int, parts: int) -> tuple[Value, ...]:
    """Equal parts along `axis`."""
    extent = shape_of(value)[axis]
    if extent % parts:
        raise CannotPlaceError(f"it splits {extent} into {parts} parts")
    size = extent // parts
    rank = len(shape_of(value))
    result: list[Value] = []
    for part in range(parts):
        key: Key = [slice(None)] * rank
        key[axis % rank] = slice(part * size, (part + 1) * size, 1)
        result.append(index(value, key))
    return tuple(result)


def concat(values: Sequence[Value], axis: int) -> Value:
    """Exact values or rows one after the other along `axis`."""
    exact = [value.array for value in values if isinstance(value, Exact)]
    if len(exact) == len(values):
        return Exact(np.concatenate(exact, axis))
    rows = [value for value in values if isinstance(value, Rows)]
    if len(rows) != len(values):
        raise CannotPlaceError("it joins tensors of different kinds")
    first = rows[0]
    if any((r.width, r.columns) != (first.width, first.columns) for r in rows):
        raise CannotPlaceError("it joins rows of different widths")
    at = lead_axis(first, axis)
    return first.with_stand(np.concatenate([r.stand for r in rows], at))
