"""Presets and the modules that they become."""

import pytest
from xdsl.dialects.builtin import ModuleOp

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import TINY, preset_layer, preset_names
from hpmoe_ir.layer.config import LayerConfig, LayerError

PUBLISHED = {
    "deepseek-v3": (7168, 2048, 256, 8),
    "qwen3-30b-a3b": (2048, 768, 128, 8),
    "qwen3-235b-a22b": (4096, 1536, 128, 8),
    "mixtral-8x7b": (4096, 14336, 8, 2),
    "kimi-k2": (7168, 2048, 384, 8),
    "glm-4.6": (5120, 1536, 160, 8),
}


def sizes(layer: LayerConfig) -> tuple[int, int, int, int]:
    return layer.hidden, layer.width, layer.experts, layer.top_k


@pytest.mark.parametrize("name", PUBLISHED)
def test_presets_have_the_published_sizes(name: str):
    assert sizes(preset_layer(name)) == PUBLISHED[name]


@pytest.mark.parametrize("name", PUBLISHED)
def test_tiny_presets_keep_the_proportions(name: str):
    large, small = preset_layer(name), preset_layer(name + TINY)
    assert large.hidden * small.width == small.hidden * large.width
    assert large.experts * small.top_k == small.experts * large.top_k
    assert small.hidden <= 256
    assert small.top_k > 1


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("ranks", [None, 1, 2, 8])
def test_every_preset_is_a_valid_module(name: str, ranks: int | None):
    layer = preset_layer(name, ranks=ranks)
    layer.check_lowerable()
    module = layer_module(layer)
    assert isinstance(module, ModuleOp)
    module.verify()


def test_sizes_given_replace_the_presets_own():
    layer = preset_layer("deepseek-v3-tiny", ranks=2, tokens=129, top_k=8, capacity=99, dtype="f16")
    assert (layer.ranks, layer.tokens, layer.top_k) == (2, 129, 8)
    assert (layer.receive_rows, layer.dtype) == (99, "f16")


@pytest.mark.parametrize(
    "name, message",
    [
        (
            "deepseek-v3-tinny",
            "error: unknown preset 'deepseek-v3-tinny'; "
            "did you mean 'deepseek-v3-tiny' or 'deepseek-v3'?",
        ),
        (
            "gpt",
            "error: unknown preset 'gpt'; known: deepseek-v3, deepseek-v3-tiny, glm-4.6, "
            "glm-4.6-tiny, kimi-k2, kimi-k2-tiny, mixtral-8x7b, mixtral-8x7b-tiny, "
            "qwen3-235b-a22b, qwen3-235b-a22b-tiny, qwen3-30b-a3b, qwen3-30b-a3b-tiny",
        ),
        (
            "mixtral-8x7b-tiny-tiny",
            "error: unknown preset 'mixtral-8x7b-tiny-tiny'; "
            "did you mean 'mixtral-8x7b-tiny' or 'mixtral-8x7b'?",
        ),
    ],
)
def test_unknown_presets_are_refused(name: str, message: str):
    with pytest.raises(InputError) as e:
        preset_layer(name)
    assert str(e.value) == message


def test_ranks_must_divide_the_experts():
    with pytest.raises(LayerError) as e:
        preset_layer("mixtral-8x7b", ranks=3)
    assert str(e.value) == (
        "layer 'mixtral-8x7b': experts: expected a multiple of the 3 ranks, found 8"
    )


def test_the_module_reads_like_the_layer():
    layer = LayerConfig("l", hidden=64, width=32, experts=4, top_k=2, ranks=2, tokens=64)
    assert str(layer_module(layer)) == (
        """builtin.module attributes {moe.layer = "l"} {
  func.func @moe_layer("""
        "%x: tensor<?x64xbf16, #moe.tokens<64 rows>> {moe.role = #moe.role<tokens>}, "
        "%ids: tensor<?x2xi32, #moe.tokens<64 rows>> {moe.role = #moe.role<expert_ids>}, "
        "%gate: tensor<?x2xf32, #moe.tokens<64 rows>> {moe.role = #moe.role<gate_weights>}, "
        "%w13: tensor<2x64x64xbf16, #moe.experts<4 over 2 ranks>> "
        "{moe.role = #moe.role<up_weights>}, "
        "%w2: tensor<2x32x64xbf16, #moe.experts<4 over 2 ranks>> "
        "{moe.role = #moe.role<down_weights>}"
        ") -> (tensor<?x64xbf16, #moe.tokens<64 rows>> {moe.role = #moe.role<output>}) {\n"
        "    %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<64 rows>> -> ROUTE\n"
        "    %recv = moe.dispatch %x by %route : tensor<?x64xbf16, #moe.tokens<64 rows>>, ROUTE "
        "-> tensor<?x64xbf16, #moe.grouped<256 rows>>\n"
        "    %h = moe.grouped_matmul %recv, %w13 by %route : "
        "tensor<?x64xbf16, #moe.grouped<256 rows>>, "
        "tensor<2x64x64xbf16, #moe.experts<4 over 2 ranks>>, ROUTE "
        "-> tensor<?x64xbf16, #moe.grouped<256 rows>>\n"
        "    %a = moe.swiglu %h : tensor<?x64xbf16, #moe.grouped<256 rows>> "
        "-> tensor<?x32xbf16, #moe.grouped<256 rows>>\n"
        "    %y = moe.grouped_matmul %a, %w2 by %route : "
        "tensor<?x32xbf16, #moe.grouped<256 rows>>, "
        "tensor<2x32x64xbf16, #moe.experts<4 over 2 ranks>>, ROUTE "
        "-> tensor<?x64xbf16, #moe.grouped<256 rows>>\n"
        "    %out = moe.combine %y, %gate by %route : tensor<?x64xbf16, #moe.grouped<256 rows>>, "
        "tensor<?x2xf32, #moe.tokens<64 rows>>, ROUTE "
        "-> tensor<?x64xbf16, #moe.tokens<64 rows>>\n"
        "    func.return %out : tensor<?x64xbf16, #moe.tokens<64 rows>>\n"
        "  }\n}"
    ).replace("ROUTE", "!moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>")
