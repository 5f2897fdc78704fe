"""Cells that spell an expert layer in various ways, and some that are none.

`GOOD` and `BAD` say which must be imported and which refused. All have 8 experts of width 32,
hidden 64 and top 2, with the router and the weights of `Layer`.
"""

# pyright: basic, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.common.initializer import Zero
from mindspore.ops.auto_generate import GroupedMatmul

EXPERTS, HIDDEN, WIDTH, TOP_K, TOKENS = 8, 64, 32, 2, 24


def weight(name: str, *shape: int, dtype=ms.bfloat16) -> Parameter:
    return Parameter(Tensor(shape=shape, dtype=dtype, init=Zero()), name=name)


class Layer(nn.Cell):
    def __init__(self, lead: tuple[int, ...] = (TOKENS,)):
        super().__init__()
        self.router = weight("router", HIDDEN, EXPERTS, dtype=ms.float32)
        self.w13 = weight("w13", EXPERTS, HIDDEN, 2 * WIDTH)
        self.w2 = weight("w2", EXPERTS, WIDTH, HIDDEN)
        self.grouped_matmul = GroupedMatmul(split_item=3, group_type=0)
        self.set_inputs(Tensor(shape=(*lead, HIDDEN), dtype=ms.bfloat16))

    def route(self, x):
        scores = ops.softmax(ops.matmul(x.astype(ms.float32), self.router), -1)
        weights, ids = ops.topk(scores, TOP_K)
        return ids, weights / weights.sum(-1, keepdims=True)

    def multiply(self, rows, weights, ends):
        return self.grouped_matmul([rows], [weights], None, None, None, None, None, ends)[0]

    def ends(self, ids):
        counts = ops.one_hot(ids.reshape(-1), EXPERTS).sum(0)
        return ops.cumsum(counts, 0).astype(ms.int64)

    def sort(self, ids):
        return ops.sort(ids.reshape(-1).astype(ms.float32))[1]

    def unsort(self, y, order):
        back = ops.gather(y, ops.sort(order.astype(ms.float32))[1], 0)
        return back.reshape(-1, TOP_K, HIDDEN)

    def weigh(self, copies, gate):
        return (copies * gate.astype(copies.dtype).expand_dims(-1)).sum(1)


class DenseLoop(Layer):
    """Every expert on every token, weight 0 where not chosen; gate and up apart, transposed."""

    def __init__(self):
        super().__init__(lead=(3, 8))
        self.w1 = weight("w1", EXPERTS, WIDTH, HIDDEN)
        self.w3 = weight("w3", EXPERTS, WIDTH, HIDDEN)

    def construct(self, x):
        ids, gate = self.route(x)
        out = ops.zeros_like(x)
        for e in range(EXPERTS):
            share = (gate * (ids == e).astype(gate.dtype)).sum(-1, keepdims=True)
            up = ops.matmul(x, self.w3[e].swapaxes(0, 1))
            a = ops.silu(ops.matmul(x, self.w1[e].swapaxes(0, 1))) * up
            out = out + ops.matmul(a, self.w2[e]) * share.astype(x.dtype)
        return out


class ScatterAdd(Layer):
    """Weights applied in the experts' order, then the rows added up where they belong."""

    def construct(self, x):
        ids, gate = self.route(x)
        order = self.sort(ids)
        token = order // TOP_K
        h = self.multiply(ops.gather(x, token, 0), self.w13, self.ends(ids))
        gate_half, up = ops.split(h, WIDTH, 1)
        y = self.multiply(up * ops.silu(gate_half), self.w2, self.ends(ids))
        y = y * ops.gather(gate.reshape(-1), order, 0).expand_dims(-1).astype(y.dtype)
        return ops.tensor_scatter_add(ops.zeros_like(x), token.expand_dims(-1), y)


class PickedWeights(Layer):
    """A matrix for each row."""

    def construct(self, x):
        ids, gate = self.route(x)
        expert = ids.reshape(-1)
        rows = ops.tile(x.expand_dims(1), (1, TOP_K, 1)).reshape(-1, 1, HIDDEN)
        h = ops.BatchMatMul()(rows, ops.gather(self.w13, expert, 0))
        first = h[:, :, :WIDTH]
        a = first * ops.sigmoid(first) * h[:, :, WIDTH:]
        y = ops.BatchMatMul()(a, ops.gather(self.w2, expert, 0))
        return self.weigh(y.reshape(-1, TOP_K, HIDDEN), gate)


class FusedPermute(Layer):
    """Ids and weights are inputs; the NPU's own permutations, the second with the weights."""

    def __init__(self):
        super().__init__()
        self.set_inputs(
            Tensor(shape=(TOKENS, HIDDEN), dtype=ms.bfloat16),
            Tensor(shape=(TOKENS, TOP_K), dtype=ms.int32),
            Tensor(shape=(TOKENS, TOP_K), dtype=ms.bfloat16),
        )

    def construct(self, x, ids, gate):
        rows, places = ops.moe_token_permute(x, ids)
        ends = self.ends(ids)
        y = self.multiply(ops.swiglu(self.multiply(rows, self.w13, ends)), self.w2, ends)
        return ops.moe_token_unpermute(y, places, probs=gate)


class Surrounded(Layer):
    """A router that first picks groups, a shared expert and the residual around the layer."""

    def __init__(self):
        super().__init__()
        self.shared = weight("shared", HIDDEN, HIDDEN)

    def route(self, x):
        scores = ops.sigmoid(ops.matmul(x.astype(ms.float32), self.router))
        groups = scores.reshape(-1, 4, EXPERTS // 4)
        _, best = ops.topk(groups.max(-1), 2)
        allowed = ops.one_hot(best, 4).sum(1).expand_dims(-1)
        _, ids = ops.topk((groups * allowed.astype(scores.dtype)).reshape(-1, EXPERTS), TOP_K)
        weights = ops.gather_d(scores, 1, ids)
        return ids, weights * 2.5

    def layer(self, x):
        ids, gate = self.route(x)
        order, ends = self.sort(ids), self.ends(ids)
        h = self.multiply(ops.gather(x, order // TOP_K, 0), self.w13, ends)
        y = self.multiply(ops.swiglu(h), self.w2, ends)
        return self.weigh(self.unsort(y, order), gate)

    def construct(self, x):
        return x + self.layer(x) + ops.matmul(x, self.shared)


class Sorted(Layer):
    """The plain form that the cells below break; each overrides one step."""

    def activation(self, h):
        return ops.swiglu(h)

    def order(self, ids):
        return self.sort(ids)

    def combine(self, copies, gate):
        return self.weigh(copies, gate)

    def inputs(self, rows):
        return rows

    def construct(self, x):
        ids, gate = self.route(x)
        order, ends = self.order(ids), self.ends(ids)
        h = self.multiply(self.inputs(ops.gather(x, order // TOP_K, 0)), self.w13, ends)
        y = self.multiply(self.activation(h), self.w2, ends)
        return self.combine(self.unsort(y, order), gate)


class WrongActivation(Sorted):
    def activation(self, h):
        gate, up = ops.split(h, WIDTH, 1)
        return ops.relu(gate) * up


class ExchangedHalves(Sorted):
    def activation(self, h):
        gate, up = ops.split(h, WIDTH, 1)
        return gate * ops.silu(up)


class Biased(Sorted):
    def __init__(self):
        super().__init__()
        self.bias = weight("bias", 2 * WIDTH)

    def activation(self, h):
        return ops.swiglu(h + self.bias)


class Unsorted(Sorted):
    """The rows go to other experts than their tokens'."""

    def order(self, ids):
        return self.sort(-ids)


class Unweighted(Sorted):
    def combine(self, copies, gate):
        return copies.sum(1)


class HalfWeighted(Sorted):
    """The weights are added where they should be multiplied."""

    def combine(self, copies, gate):
        return (copies + gate.astype(copies.dtype).expand_dims(-1)).sum(1)


class MixedRows(Sorted):
    def inputs(self, rows):
        return ops.transpose(rows, (1, 0)).reshape(-1, HIDDEN)


class OneMatmul(Sorted):
    def construct(self, x):
        ids, gate = self.route(x)
        order = self.sort(ids)
        h = self.multiply(ops.gather(x, order // TOP_K, 0), self.w13, self.ends(ids))
        return self.combine(self.unsort(h, order), gate)


class TwoLayers(Surrounded):
    def construct(self, x):
        return self.layer(self.layer(x))


class NoExperts(Layer):
    def construct(self, x):
        return ops.silu(ops.matmul(x.astype(ms.float32), self.router))


class MixedTypes(Sorted):
    def __init__(self):
        super().__init__()
        self.w2 = weight("w2", EXPERTS, WIDTH, HIDDEN, dtype=ms.float32)

    def activation(self, h):
        return ops.swiglu(h).astype(ms.float32)


class Gradients(nn.Cell):
    """The gradient of the tokens."""

    def __init__(self):
        super().__init__()
        self.layer = Sorted()
        self.set_inputs(Tensor(shape=(TOKENS, HIDDEN), dtype=ms.bfloat16))

    def construct(self, x):
        return ops.grad(self.layer)(x)


class WeightGradients(Gradients):
    """The result, and the gradients of the weights."""

    def __init__(self):
        super().__init__()
        self.gradients = ops.GradOperation(get_by_list=True)
        self.weights = ms.ParameterTuple(self.layer.trainable_params())

    def construct(self, x):
        return self.layer(x), self.gradients(self.layer, self.weights)(x)


GOOD = (DenseLoop, ScatterAdd, PickedWeights, FusedPermute, Surrounded, Sorted)
BAD = (
    WrongActivation,
    ExchangedHalves,
    Biased,
    Unsorted,
    Unweighted,
    HalfWeighted,
    MixedRows,
    OneMatmul,
    TwoLayers,
    NoExperts,
    MixedTypes,
    Gradients,
    WeightGradients,
)
