"""A Mixture-of-Experts layer in plain MindSpore, to be imported.

    hpmoe import --mindspore examples/mindspore_moe.py:MoeFfn -o graph.mlir

Three cells compute the same layer with the same weights:

- `MoeFfn` sorts the tokens by expert and masks each expert's rows. It runs on a CPU, slowly: every
  expert sees every row.
- `GroupedMoeFfn` leaves the masks to the grouped matmul of the NPU.
- `ParallelMoeFfn` spreads the experts over ranks and exchanges rows by all-to-all:
  `hpmoe import --mindspore examples/mindspore_moe.py:ParallelMoeFfn --ranks 2`.

Each declares its inputs with `set_inputs`, which is how the importer learns their shapes.
"""

# pyright: basic, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import os

import mindspore as ms
import numpy as np
from mindspore import Parameter, Tensor, nn, ops
from mindspore.ops.auto_generate import GroupedMatmul


def normal(shape: tuple[int, ...], scale: float, dtype, name: str) -> Parameter:
    """Returns a weight whose random values depend on its name and shape only."""
    seed = np.frombuffer(name.encode().ljust(8)[:8], np.uint32)
    values = np.random.default_rng(seed).standard_normal(shape, np.float32) * np.float32(scale)
    return Parameter(Tensor(values, dtype), name=name)


class MoeFfn(nn.Cell):
    """Top-k softmax router, then the weighted sum of k SwiGLU experts: [tokens, hidden] to same."""

    def __init__(
        self,
        tokens: int = 32,
        hidden: int = 64,
        width: int = 32,
        experts: int = 8,
        top_k: int = 2,
        dtype=ms.float16,
        local_experts: int | None = None,
    ):
        super().__init__()
        self.hidden, self.width, self.experts, self.top_k = hidden, width, experts, top_k
        self.local_experts = local_experts or experts
        self.router = normal((experts, hidden), hidden**-0.5, ms.float32, "router")
        self.w13 = normal((self.local_experts, hidden, 2 * width), hidden**-0.5, dtype, "w13")
        self.w2 = normal((self.local_experts, width, hidden), width**-0.5, dtype, "w2")
        self.set_inputs(Tensor(shape=(tokens, hidden), dtype=dtype))

    def route(self, x):
        """Returns the ids of each token's experts and their weights, which sum to 1."""
        logits = ops.matmul(x.astype(ms.float32), self.router.T)
        weights, ids = ops.topk(ops.softmax(logits, -1), self.top_k)
        return ids, weights / weights.sum(-1, keepdims=True)

    def expert_ffn(self, rows, expert):
        """Applies to each row, sorted by expert, the expert that it belongs to."""
        out = ops.zeros_like(rows)
        for e in range(self.experts):
            gate, up = ops.split(ops.matmul(rows, self.w13[e]), self.width, -1)
            y = ops.matmul(ops.silu(gate) * up, self.w2[e])
            mine = (expert == e).astype(rows.dtype)
            out = out + y * mine.expand_dims(-1)
        return out

    def construct(self, x):
        ids, gate = self.route(x)
        expert, order = ops.sort(ids.reshape(-1).astype(ms.float32))
        rows = ops.gather(x, order // self.top_k, 0)
        y = self.expert_ffn(rows, expert)
        back = ops.gather(y, ops.sort(order.astype(ms.float32))[1], 0)
        copies = back.reshape(-1, self.top_k, self.hidden)
        return (copies * gate.astype(x.dtype).expand_dims(-1)).sum(1)


class GroupedMoeFfn(MoeFfn):
    """`MoeFfn` with the NPU's grouped matmul and SwiGLU operators."""

    def __init__(self, **sizes):
        super().__init__(**sizes)
        self.grouped_matmul = GroupedMatmul(split_item=3, group_type=0)

    def multiply(self, rows, weights, ends):
        """Multiplies rows ends[i - 1] to ends[i] by weights[i]."""
        return self.grouped_matmul([rows], [weights], None, None, None, None, None, ends)[0]

    def expert_ffn(self, rows, expert):
        counts = ops.one_hot(expert.astype(ms.int32), self.experts).sum(0)
        ends = ops.cumsum(counts, 0).astype(ms.int64)
        return self.multiply(ops.swiglu(self.multiply(rows, self.w13, ends)), self.w2, ends)


class ParallelMoeFfn(GroupedMoeFfn):
    """`GroupedMoeFfn` with the experts distributed over the ranks, for the tokens of one rank."""

    def __init__(self, **sizes):
        self.ranks = int(os.environ.get("RANK_SIZE", "1"))
        experts = sizes.get("experts", 8)
        super().__init__(local_experts=experts // self.ranks, **sizes)
        group = "hccl_world_group"
        self.exchange = ops.AlltoAll(split_count=self.ranks, split_dim=0, concat_dim=0, group=group)
        self.exchange_rows = ops.AlltoAllV(group=group, block_size=self.hidden)
        self.exchange_ids = ops.AlltoAllV(group=group, block_size=1)

    def expert_ffn(self, rows, expert):
        counts = ops.one_hot(expert.astype(ms.int32), self.experts).sum(0)
        counts = counts.reshape(self.ranks, self.local_experts)
        arriving = self.exchange(counts)
        send, receive = counts.sum(1), arriving.sum(1)
        received = self.exchange_rows(rows.reshape(-1), send, receive).reshape(-1, self.hidden)
        ids = self.exchange_ids(expert, send, receive)
        # Rows arrive sorted by rank, then expert; the grouped matmul needs expert, then rank.
        order = ops.sort(ids)[1]
        ends = ops.cumsum(arriving.sum(0), 0).astype(ms.int64)
        y = self.multiply(ops.gather(received, order, 0), self.w13, ends)
        y = self.multiply(ops.swiglu(y), self.w2, ends)
        y = ops.gather(y, ops.sort(order.astype(ms.float32))[1], 0)
        return self.exchange_rows(y.reshape(-1), receive, send).reshape(-1, self.hidden)
