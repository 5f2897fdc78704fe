"""Random input values of a layer, by seed and launch, of magnitude about 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpmoe_ir.dtypes import Dtype, Float32Array, RawArray, from_bits, to_bits
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RankRouting, RoutingSpec, generate_routing
from hpmoe_ir.memory_limit import check_memory


@dataclass(frozen=True)
class LayerValues:
    """Inputs of one launch on all ranks; floats are raw memory of `config.dtype`.

    For rank r: `x` [t_r, H], the tokens; `routing`, ids and router weights [t_r, K]; `w13`
    [L, H, 2 I], the gate projection in the first half of the columns and the up projection in the
    second; `w2` [L, I, H]; `dout` [t_r, H], the gradient of the output, input of the backward
    direction.
    """

    config: LayerConfig
    x: tuple[RawArray, ...]
    routing: tuple[RankRouting, ...]
    w13: tuple[RawArray, ...]
    w2: tuple[RawArray, ...]
    dout: tuple[RawArray, ...]

    @property
    def tokens(self) -> list[int]:
        """Number of tokens of each rank."""
        return [rank.ids.shape[0] for rank in self.routing]


def kept_bytes(config: LayerConfig, tokens: Sequence[int]) -> int:
    """Returns the bytes of the values of one launch for `tokens[r]` tokens on each rank r."""
    weights = config.ranks * 3 * config.local_experts * config.hidden * config.width
    # Ids are int32 and router weights f32; all else has 2 bytes an element.
    return 2 * (weights + 2 * sum(tokens) * config.hidden) + 8 * sum(tokens) * config.top_k


def make_values(
    config: LayerConfig,
    tokens: Sequence[int],
    routing: RoutingSpec | Sequence[RankRouting],
    seed: int,
    launch: int = 1,
) -> LayerValues:
    """Draws the values of launch number `launch` for `tokens[r]` tokens on each rank r.

    Tokens are standard normal; weights are scaled so that h, a and y are of order 1.
    Raises RoutingError if the routing does not fit the layer, InputError if the values do not fit
    into memory.
    """
    local, hidden, width = config.local_experts, config.hidden, config.width
    largest = max(local * hidden * 2 * width, *(t * hidden for t in tokens), 0)
    # f32 and int64 temporaries of the largest draw.
    temporary = 10 * largest + 16 * sum(tokens) * max(config.experts, config.top_k)
    purpose = f"values of the layer '{config.name}'"
    check_memory(kept_bytes(config, tokens) + temporary, purpose)
    ranks = (
        generate_routing(routing, config, tokens, launch_seed(seed, launch))
        if isinstance(routing, RoutingSpec)
        else list(routing)
    )
    dtype = config.dtype

    def draw(what: int, rank: int, shape: tuple[int, ...], scale: float) -> RawArray:
        rng = np.random.default_rng([seed, launch, what, rank])
        return to_bits(rng.standard_normal(shape, np.float32) * np.float32(scale), dtype)

    every = range(config.ranks)
    return LayerValues(
        config,
        x=tuple(draw(0, r, (tokens[r], hidden), 1.0) for r in every),
        routing=tuple(ranks),
        w13=tuple(draw(1, r, (local, hidden, 2 * width), hidden**-0.5) for r in every),
        # silu(g) * u of two standard normal numbers has a mean square of about 0.36.
        w2=tuple(draw(2, r, (local, width, hidden), (0.36 * width) ** -0.5) for r in every),
        dout=tuple(draw(3, r, (tokens[r], hidden), 1.0) for r in every),
    )


def launch_seed(seed: int, launch: int) -> int:
    """Returns the seed of the routing of launch number `launch`."""
    return seed * 1000003 + launch


def all_tokens(parts: Sequence[RawArray], dtype: Dtype) -> Float32Array:
    """Returns the float32 values of raw parts, concatenated along the first dimension."""
    return np.concatenate([from_bits(part, dtype) for part in parts])
