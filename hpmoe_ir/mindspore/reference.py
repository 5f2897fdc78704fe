"""The experts in plain MindSpore operators, for comparison."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import mindspore as ms
from mindspore import Tensor, nn, ops

from hpmoe_ir.layer.config import LayerConfig


class ReferenceExperts(nn.Cell):
    """The experts of all ranks in f32, each on all tokens with weight 0 where not chosen."""

    def __init__(self, config: LayerConfig) -> None:
        super().__init__()
        self.experts = config.experts
        self.hidden = config.hidden
        self.width = config.width

    def construct(
        self, x: Tensor, ids: Tensor, gates: Tensor, weight1: Tensor, weight2: Tensor
    ) -> Tensor:
        """Returns the output [n, H] for x [n, H], ids and gates [n, K], weights of all ranks."""
        w13 = weight1.reshape(self.experts, self.hidden, 2 * self.width)
        w2 = weight2.reshape(self.experts, self.width, self.hidden)
        out = ops.zeros_like(x)
        for expert in range(self.experts):
            gate, up = ops.split(ops.matmul(x, w13[expert]), self.width, 1)
            y = ops.matmul(ops.silu(gate) * up, w2[expert])
            chosen = ops.equal(ids, expert).astype(ms.float32)
            out = out + (gates * chosen).sum(-1, keepdims=True) * y
        return out
