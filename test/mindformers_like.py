"""Cells with the structure and the names of MindFormers' MoELayer and its grouped experts.

They can be compiled but not run on a CPU, which has no grouped matmul.
"""

# pyright: basic
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.ops.auto_generate import GroupedMatmul


@dataclass
class Config:
    hidden_size: int = 32
    moe_ffn_hidden_size: int = 16
    num_moe_experts: int = 4
    moe_router_topk: int = 2
    params_dtype: Any = ms.float32
    compute_dtype: Any = ms.bfloat16


class GroupedExperts(nn.Cell):
    """Called with tokens [1, N, H], router weights and expert ids [1, N, K]."""

    def __init__(self, config: Config, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.hidden, self.width = config.hidden_size, config.moe_ffn_hidden_size
        self.compute_dtype = config.compute_dtype
        rng = np.random.default_rng(seed)

        def weight(name: str, *shape: int) -> Parameter:
            drawn = rng.standard_normal(shape, np.float32) * np.float32(0.2)
            return Parameter(Tensor(drawn, config.params_dtype), name=name)

        experts = config.num_moe_experts
        self.weight1 = weight("w1", experts * self.hidden, 2 * self.width)
        self.weight2 = weight("w2", experts * self.width, self.hidden)
        self.grouped_matmul = GroupedMatmul(split_item=3, group_type=0)

    def activation(self, h):
        return ops.swiglu(h)

    def construct(self, tokens, probs, routing_map):
        config = self.config
        x = tokens.reshape(-1, self.hidden).astype(self.compute_dtype)
        ids = routing_map.reshape(-1, config.moe_router_topk)
        w1 = self.weight1.astype(self.compute_dtype).reshape(-1, self.hidden, 2 * self.width)
        w2 = self.weight2.astype(self.compute_dtype).reshape(-1, self.width, self.hidden)
        counts = ops.one_hot(ids.reshape(-1), config.num_moe_experts).sum(0)
        ends = ops.cumsum(counts, 0).astype(ms.int64)
        rows, places = ops.moe_token_permute(x, ids)
        h = self.multiply(rows, w1, ends)
        y = self.multiply(self.activation(h), w2, ends)
        gates = probs.reshape(-1, config.moe_router_topk).astype(self.compute_dtype)
        return ops.moe_token_unpermute(y, places, probs=gates).reshape(tokens.shape)

    def multiply(self, rows, weights, ends):
        return self.grouped_matmul([rows], [weights], None, None, None, None, None, ends)[0]


class ExchangedHalves(GroupedExperts):
    """The gate projection is the second half."""

    def activation(self, h):
        up, gate = ops.split(h, self.width, 1)
        return up * ops.silu(gate)


class MoELayer(nn.Cell):
    """A router and grouped experts; tokens are [sequence, batch, H]."""

    def __init__(self, config: Config, experts=GroupedExperts, seed: int = 0) -> None:
        super().__init__()
        self.top_k = config.moe_router_topk
        rng = np.random.default_rng(seed + 1)
        router = rng.standard_normal((config.hidden_size, config.num_moe_experts), np.float32)
        self.router = Parameter(Tensor(router * np.float32(0.2)), name="router")
        self.experts = experts(config, seed)

    def construct(self, hidden_states):
        x = ops.transpose(hidden_states, (1, 0, 2))
        rows = x.reshape(1, -1, x.shape[-1])
        ordered, ids = ops.sort(-ops.matmul(rows, self.router), -1)
        probs = ops.softmax(-ordered[:, :, : self.top_k], -1)
        out = self.experts(rows, probs, ids[:, :, : self.top_k])
        return ops.transpose(out.reshape(x.shape), (1, 0, 2))


class Model(nn.Cell):
    """Two such layers."""

    def __init__(self, config: Config, experts=GroupedExperts) -> None:
        super().__init__()
        self.layers = nn.CellList([MoELayer(config, experts, seed) for seed in range(2)])

    def construct(self, x):
        for layer in self.layers:
            x = layer(x)
        return x
