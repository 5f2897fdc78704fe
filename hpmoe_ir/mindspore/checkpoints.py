"""Checkpoints of experts for another number of ranks."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from mindspore import Parameter, Tensor

from hpmoe_ir.training.weights import reshard

EXPERT_WEIGHTS = ("experts.weight1", "experts.weight2")
"""Ends of the names of parameters of which each rank has the rows of its own experts. The states of
an optimizer have names that end in the parameter's."""


def reshard_checkpoints(
    parts: Sequence[Mapping[str, Parameter]], ranks: int
) -> list[dict[str, Parameter]]:
    """Returns the checkpoint of each of `ranks` ranks from those of other ranks, in rank order.

    A checkpoint is what `mindspore.load_checkpoint` returns. Weights of experts, and what an
    optimizer keeps for them, are split anew by rows, in the order of the experts; all else must be
    the same in all checkpoints. Raises ValueError, with the name, if it is not, if a checkpoint
    lacks a parameter, or if the rows don't divide by `ranks`.
    """
    found: list[dict[str, Parameter]] = [{} for _ in range(ranks)]
    for name, first in parts[0].items():
        for rank, part in enumerate(parts):
            if set(part) != set(parts[0]):
                odd = min(set(part) ^ set(parts[0]))
                raise ValueError(f"{odd}: expected it in all checkpoints, or none; rank {rank}")
        arrays = [part[name].asnumpy() for part in parts]
        if name.endswith(EXPERT_WEIGHTS):
            try:
                new = reshard(arrays, ranks)
            except ValueError as e:
                raise ValueError(f"{name}: {e}") from e
        else:
            for rank, array in enumerate(arrays):
                if array.tobytes() != arrays[0].tobytes():
                    raise ValueError(f"{name}: expected the same on all ranks, rank {rank} differs")
            new = [arrays[0]] * ranks
        for own, array in zip(found, new, strict=True):
            own[name] = Parameter(Tensor(np.ascontiguousarray(array), first.dtype), name=name)
    return found
