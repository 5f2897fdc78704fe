"""Sizes that don't fit into memory are refused before anything is made."""

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import RoutingSpec
from hpmoe_ir.layer.values import make_values
from hpmoe_ir.memory_limit import available_memory, check_memory


def test_what_fits_is_let_through():
    assert available_memory() > 1 << 20
    check_memory(1 << 20, "a little")


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"^error: much: expected to fit .* found 1048576.0 GiB$"):
        check_memory(1 << 50, "much")


def test_values_of_a_layer_that_do_not_fit_are_refused():
    layer = LayerConfig("huge", hidden=1 << 20, width=1 << 20, experts=8, top_k=2, tokens=4)
    with pytest.raises(InputError, match=r"^error: values of the layer 'huge': expected to fit "):
        make_values(layer, [4], RoutingSpec("uniform"), 0)
