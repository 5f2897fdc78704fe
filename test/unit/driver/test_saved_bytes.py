"""The memory that each choice of what to recompute saves."""

from __future__ import annotations

from xdsl.dialects.func import FuncOp

from hpmoe_ir.driver.saved_bytes import saved_by_choice, saved_values
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.layer.config import LayerConfig


def test_saved_bytes_of_each_choice():
    config = LayerConfig(
        "case", hidden=48, width=16, experts=6, top_k=2, ranks=2, tokens=7, capacity=20
    )
    module = layer_module(config)
    before = str(module)
    # Rows at capacity, two bytes an element.
    sizes = {"recv": 20 * 48 * 2, "h": 20 * 32 * 2, "a": 20 * 16 * 2, "back": 14 * 48 * 2}
    drops = {"swiglu": "a", "up": "h", "dispatch": "recv"}
    found = dict(saved_by_choice(module))
    assert list(found) == [
        (),
        ("swiglu",),
        ("up",),
        ("dispatch",),
        ("swiglu", "up"),
        ("swiglu", "dispatch"),
        ("up", "dispatch"),
        ("swiglu", "up", "dispatch"),
    ]
    for choice, saved in found.items():
        dropped = {drops[name] for name in choice}
        expected = {name: size for name, size in sizes.items() if name not in dropped}
        assert {value.name: value.bytes for value in saved} == expected
    assert str(module) == before


def test_a_function_that_was_not_differentiated_saves_nothing():
    module = layer_module(LayerConfig("case", hidden=4, width=3, experts=2, top_k=1, tokens=2))
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert saved_values(function) == []
