"""The Cell that replaces the experts of a Mixture-of-Experts layer."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn
from mindspore.common.initializer import Normal, initializer
from mindspore.communication import get_group_size

from hpmoe_ir.dtypes import Dtype, Float32Array
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.mindspore.group import group_launcher
from hpmoe_ir.mindspore.kernel_experts import KernelExperts
from hpmoe_ir.mindspore.reference import ReferenceExperts
from hpmoe_ir.options.machine import DEFAULT_MACHINE
from hpmoe_ir.training.experts import ModuleExperts
from hpmoe_ir.training.shared import LayerRequest, shared_launcher
from hpmoe_ir.training.weights import kernel_config, weight1_shape, weight2_shape

BACKENDS = ("cpu-model", "reference")
"""Where the experts are computed: by the generated kernels on the CPU model, or by plain MindSpore
operators."""

DTYPES: dict[Any, Dtype] = {ms.bfloat16: "bf16", ms.float16: "f16"}


class HpMoeExperts(nn.Cell):
    """The experts of one layer: dispatch, matmuls and combine in one kernel for each direction.

    `construct(x, topk_ids, topk_weights)` takes tokens [n, H], experts int32 [n, K] and router
    weights [n, K], with any leading dimensions in place of n, and returns [n, H] in the type of x.
    n may differ from step to step, up to `tokens` for each rank. All are differentiable but the
    ids. With several ranks in this process their rows come one after another, in equal parts or as
    the fourth argument, int32 [ranks], counts them; rows after the last rank's are not used.

    Parameters are `weight1` [held * L * H, 2 I], the gate projection in the first half of the
    columns, and `weight2` [held * L * I, H] for the L experts of each rank held, as MindFormers'
    grouped experts have them. The kernels round them to `dtype`; their gradients are f32.
    """

    compute: Any

    def __init__(
        self,
        hidden: int,
        width: int,
        experts: int,
        top_k: int,
        tokens: int,
        *,
        ranks: int = 1,
        ep_group: str | None = None,
        schedule: str = "auto",
        machine: str = DEFAULT_MACHINE,
        capacity: int | None = None,
        recompute: Sequence[str] = (),
        accumulate: tuple[Float32Array, Float32Array] | None = None,
        dtype: Any = ms.bfloat16,
        param_dtype: Any = ms.float32,
        backend: str = "cpu-model",
        wait_seconds: float = 60.0,
    ) -> None:
        """Compiles the kernels, unless another module of the process has the same.

        tokens: largest number of tokens of a rank. ranks: ranks that share the experts, all in this
        process. ep_group: in place of that, a group of MindSpore whose ranks share the experts, one
        in each process. schedule, machine: as `hpmoe compile` takes them. capacity: largest number
        of rows that a rank can receive, by default that of the worst routing. recompute: results
        that are computed again in the backward direction, not saved: `swiglu`, `up`, `dispatch`.
        accumulate: NumPy float32 arrays of the shapes of `weight1` and `weight2`, to which the
        backward kernel adds the gradients of the weights; these are then zeros for MindSpore.
        dtype: the kernels' element type, bfloat16 or float16. param_dtype: type of the parameters.
        wait_seconds: longest wait for another rank of the group. Raises LayerError, InputError or
        ScheduleError for what can't be compiled, DifferentKernelsError if another rank of the group
        has other kernels.
        """
        super().__init__()
        if backend not in BACKENDS:
            known = ", ".join(BACKENDS)
            raise ValueError(f"backend: expected one of {known}, found {backend!r}")
        if dtype not in DTYPES:
            raise ValueError(f"dtype: expected mindspore.bfloat16 or float16, found {dtype}")
        if ep_group is not None:
            if ranks != 1 or backend == "reference":
                raise ValueError(
                    "ep_group: expected ranks=1 and a backend with kernels, since each process of "
                    f"the group has one rank; found ranks={ranks}, backend={backend!r}"
                )
            ranks = get_group_size(ep_group)
        self.config = LayerConfig(
            "experts",
            hidden=hidden,
            width=width,
            experts=experts,
            top_k=top_k,
            ranks=ranks,
            tokens=tokens,
            capacity=capacity,
            dtype=DTYPES[dtype],
        )
        self.backend = backend
        held = ranks if ep_group is None else 1
        self.weight1 = _weight("weight1", weight1_shape(self.config, held), hidden, param_dtype)
        self.weight2 = _weight("weight2", weight2_shape(self.config, held), width, param_dtype)
        self.counts = Tensor(np.full(held, -1, np.int32))
        if backend == "reference":
            self.compute = ReferenceExperts(self.config)
            return
        _check_buffers(accumulate, self.weight1.shape, self.weight2.shape)
        request = LayerRequest(
            kernel_config(self.config),
            schedule,
            machine,
            tuple(recompute),
            accumulate is not None,
        )
        if ep_group is None:
            self.launcher = shared_launcher(request)
        else:
            self.launcher = group_launcher(request, ep_group, wait_seconds)
        kernels = self.launcher.experts
        self.compute = KernelExperts(
            ModuleExperts(self.config, self.launcher),
            kernels.saved_shapes,
            element_bytes=2,
            main_gradients=accumulate,
        )

    def construct(
        self, x: Tensor, topk_ids: Tensor, topk_weights: Tensor, counts: Tensor | None = None
    ) -> Tensor:
        """Returns the weighted sum of each token's experts, in the shape and type of x."""
        return self.weighted_sum(x, topk_ids, topk_weights, counts)

    def weighted_sum(self, x, topk_ids, topk_weights, counts):
        """Returns what `construct` does, for subclasses with other arguments."""
        rows = x.reshape(-1, self.config.hidden).astype(ms.float32)
        ids = topk_ids.reshape(-1, self.config.top_k).astype(ms.int32)
        gates = topk_weights.reshape(-1, self.config.top_k).astype(ms.float32)
        weight1 = self.weight1.astype(ms.float32)
        weight2 = self.weight2.astype(ms.float32)
        if self.backend == "reference":
            out = self.compute(rows, ids, gates, weight1, weight2)
        else:
            held = self.counts if counts is None else counts
            out = self.compute(rows, ids, gates, weight1, weight2, held)[0]
        return out.astype(x.dtype).reshape(x.shape)

    def close(self) -> None:
        """Frees the kernels once no other open module shares them; later calls are refused."""
        if self.backend != "reference":
            self.launcher.close()


def _check_buffers(
    buffers: tuple[Float32Array, Float32Array] | None, *shapes: tuple[int, ...]
) -> None:
    """Raises ValueError unless there are float32 buffers of these shapes, or none."""
    if buffers is None:
        return
    for name, buffer, shape in zip(("weight1", "weight2"), buffers, shapes, strict=True):
        if buffer.shape != shape or buffer.dtype != np.float32:
            raise ValueError(
                f"accumulate: expected float32 {shape} for {name}, found {buffer.dtype} "
                f"{buffer.shape}"
            )


def _weight(name: str, shape: tuple[int, int], inputs: int, dtype: Any) -> Parameter:
    """Returns a parameter, normal with the variance of one over the inputs; the seed is that of
    `mindspore.set_seed`."""
    initial = Normal(inputs**-0.5)
    return Parameter(initializer(initial, shape, dtype), name=name)
