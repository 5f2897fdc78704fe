"""The formula of a layer in NumPy and float64: a second opinion on the oracle, and faster."""

from __future__ import annotations

import numpy as np

from hpmoe_ir.dtypes import Float64Array
from hpmoe_ir.layer.values import LayerValues, all_tokens
from hpmoe_ir.run.oracle import expert_rows, silu


def numpy_layer(values: LayerValues) -> list[Float64Array]:
    """Outputs of each rank in float64 [t_r, H], by the same formula as the oracle."""
    config = values.config
    x = all_tokens(values.x, config.dtype).astype(np.float64)
    ids = np.concatenate([rank.ids for rank in values.routing])
    gates = np.concatenate([rank.gates for rank in values.routing]).astype(np.float64)
    w13 = all_tokens(values.w13, config.dtype)
    w2 = all_tokens(values.w2, config.dtype)
    copies = np.zeros((ids.size, config.hidden))
    for expert, pairs in enumerate(expert_rows(config, ids)):
        if pairs.size:
            h = x[pairs // config.top_k] @ w13[expert].astype(np.float64)
            a = silu(h[:, : config.width]) * h[:, config.width :]
            copies[pairs] = a @ w2[expert].astype(np.float64)
    out = (copies.reshape(*ids.shape, config.hidden) * gates[:, :, None]).sum(axis=1)
    return np.split(out, np.cumsum(values.tokens)[:-1])
