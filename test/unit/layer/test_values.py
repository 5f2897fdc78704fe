"""Values that layers are run on."""

import numpy as np
from numpy_layer import numpy_layer

from hpmoe_ir.dtypes import from_bits
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import parse_routing
from hpmoe_ir.layer.values import make_values

LAYER = LayerConfig("small", hidden=128, width=96, experts=8, top_k=2, ranks=2, tokens=64)
SPEC = parse_routing("uniform")


def test_shapes_and_types():
    values = make_values(LAYER, [64, 3], SPEC, seed=1)
    assert values.tokens == [64, 3]
    assert [x.shape for x in values.x] == [(64, 128), (3, 128)]
    assert [w.shape for w in values.w13] == [(4, 128, 192)] * 2
    assert [w.shape for w in values.w2] == [(4, 96, 128)] * 2
    assert {a.dtype for a in (*values.x, *values.w13, *values.w2)} == {np.dtype(np.uint16)}


def test_same_seed_same_values_other_launch_other_values():
    first, again = (make_values(LAYER, [64, 64], SPEC, seed=1) for _ in range(2))
    second = make_values(LAYER, [64, 64], SPEC, seed=1, launch=2)
    for name in ("x", "w13", "w2"):
        for a, b, c in zip(getattr(first, name), getattr(again, name), getattr(second, name)):
            assert (a == b).all()
            assert (a != c).mean() > 0.9
    assert (first.routing[0].ids == again.routing[0].ids).all()
    assert (first.routing[0].ids != second.routing[0].ids).any()
    assert (first.x[0] != first.x[1]).mean() > 0.9


def test_every_tensor_is_of_order_one():
    values = make_values(LAYER, [64, 64], SPEC, seed=1)
    x, w13 = from_bits(values.x[0], "bf16"), from_bits(values.w13[0], "bf16")
    assert 0.9 < x.std() < 1.1
    assert 0.9 < (x @ w13[0]).std() < 1.1
    # The two copies of a token, weighted with about a half each.
    assert 0.5 < np.std(numpy_layer(values)[0]) < 1.0
