"""Operators around the forward and the backward kernel, in PyNative and graph mode."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, cast

import mindspore as ms
import numpy as np
from mindspore import nn, ops

from hpmoe_ir.dtypes import Float32Array
from hpmoe_ir.training.experts import ModuleExperts, ModuleInput

SAVED_TYPES: dict[int, Any] = {2: (ms.int16, np.int16), 4: (ms.int32, np.int32)}
"""Types that carry the raw memory of saved values, by the bytes of an element."""


class KernelExperts(nn.Cell):
    """Calls the kernels of a module: forward in `construct`, backward in `bprop`.

    Inputs are those of `ModuleInput`; floats are f32, which represents the kernels' types exactly.
    The saved values are outputs of the forward operator, so MindSpore keeps them until the backward
    operator has run: forward calls may be outstanding in any number.
    """

    run_forward: Any
    run_backward: Any

    def __init__(
        self,
        experts: ModuleExperts,
        saved_shapes: tuple[tuple[int, ...], ...],
        element_bytes: int,
        main_gradients: tuple[Float32Array, Float32Array] | None = None,
    ) -> None:
        """`saved_shapes` are those of one rank, `element_bytes` the size of their elements.

        `main_gradients` are buffers in the layouts of the weights, for kernels that accumulate: the
        gradients of the weights are added to them, and are zeros for MindSpore.
        """
        super().__init__()
        saved_type, raw = SAVED_TYPES[element_bytes]
        held = experts.launcher.held
        shapes = [(held, *shape) for shape in saved_shapes]

        def forward(
            x: Any, ids: Any, gates: Any, weight1: Any, weight2: Any, counts: Any
        ) -> tuple[Any, ...]:
            given = ModuleInput(x, ids, gates, weight1, weight2, counts)
            out, saved = experts.forward(given)
            return out, *(array.view(raw) for array in saved)

        def backward(
            x: Any,
            ids: Any,
            gates: Any,
            weight1: Any,
            weight2: Any,
            counts: Any,
            dout: Any,
            *saved: Any,
        ) -> tuple[Any, ...]:
            given = ModuleInput(x, ids, gates, weight1, weight2, counts)
            own = [array.view(_unsigned(raw)) for array in saved]
            dx, dgates, *weights = experts.backward(given, own, dout, main_gradients)
            if main_gradients is None:
                return dx, dgates, *weights
            for buffer, total in zip(main_gradients, weights, strict=True):
                buffer[...] = total
            return dx, dgates, np.zeros_like(weight1), np.zeros_like(weight2)

        def forward_shapes(x: Any, *_: Any) -> Any:
            return (x, *shapes)

        def forward_types(*_: Any) -> Any:
            return (ms.float32, *(saved_type for _ in shapes))

        def backward_shapes(x: Any, ids: Any, gates: Any, weight1: Any, weight2: Any, *_: Any):
            return (x, gates, weight1, weight2)

        def backward_types(*_: Any) -> Any:
            return (ms.float32, ms.float32, ms.float32, ms.float32)

        _declare_inputs(backward, 7 + len(shapes))
        self.run_forward = ops.Custom(forward, forward_shapes, forward_types, func_type="pyfunc")
        self.run_backward = ops.Custom(
            backward, backward_shapes, backward_types, func_type="pyfunc"
        )

    def construct(self, x, ids, gates, weight1, weight2, counts):
        """Returns the output and the saved values."""
        return self.run_forward(x, ids, gates, weight1, weight2, counts)

    def bprop(self, x, ids, gates, weight1, weight2, counts, out, dout):
        """Returns the gradients of the inputs; those of ids and counts are zeros."""
        dx, dgates, dweight1, dweight2 = self.run_backward(
            x, ids, gates, weight1, weight2, counts, dout[0], *out[1:]
        )
        return dx, ops.zeros_like(ids), dgates, dweight1, dweight2, ops.zeros_like(counts)


def _unsigned(raw: type[np.generic]) -> type[np.generic]:
    return {np.int16: np.uint16, np.int32: np.uint32}[raw]


def _declare_inputs(function: Callable[..., object], count: int) -> None:
    """Gives a function of a variable number of arguments the `count` that MindSpore looks for."""
    parameters = [
        inspect.Parameter(f"input{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        for i in range(count)
    ]
    cast(Any, function).__signature__ = inspect.Signature(parameters)
