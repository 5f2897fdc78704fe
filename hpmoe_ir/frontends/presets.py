"""Layers of published models by name, each with a small variant of the same proportions."""

from __future__ import annotations

from dataclasses import dataclass

from hpmoe_ir.diagnostics import InputError, nearest
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.layer.config import LayerConfig

TINY = "-tiny"
"""Suffix of the names of the small variants."""

TINY_RANKS = 4
TINY_TOKENS = 64


@dataclass(frozen=True)
class Preset:
    """The expert layer of a model, and the scale of its small variant."""

    hidden: int
    width: int
    experts: int
    top_k: int
    ranks: int
    """Default number of expert-parallel ranks."""
    source: str
    notes: tuple[str, ...]
    tiny_widths: int
    """Divisor of `hidden` and `width` in the small variant."""
    tiny_experts: int
    """Divisor of `experts` and `top_k` in the small variant."""


PRESETS: dict[str, Preset] = {
    "deepseek-v3": Preset(
        hidden=7168,
        width=2048,
        experts=256,
        top_k=8,
        ranks=32,
        source="DeepSeek-V3 (671B) model configuration",
        notes=("1 shared expert", "router: sigmoid, 4 of 8 groups, weights times 2.5"),
        tiny_widths=64,
        tiny_experts=4,
    ),
    "qwen3-30b-a3b": Preset(
        hidden=2048,
        width=768,
        experts=128,
        top_k=8,
        ranks=4,
        source="Qwen3-30B-A3B model configuration",
        notes=("router: softmax",),
        tiny_widths=16,
        tiny_experts=4,
    ),
    "qwen3-235b-a22b": Preset(
        hidden=4096,
        width=1536,
        experts=128,
        top_k=8,
        ranks=16,
        source="Qwen3-235B-A22B model configuration",
        notes=("router: softmax",),
        tiny_widths=16,
        tiny_experts=4,
    ),
    "kimi-k2": Preset(
        hidden=7168,
        width=2048,
        experts=384,
        top_k=8,
        ranks=32,
        source="Kimi-K2 (1T) model configuration",
        notes=("1 shared expert", "router: sigmoid, weights times 2.827"),
        tiny_widths=64,
        tiny_experts=4,
    ),
    "glm-4.6": Preset(
        hidden=5120,
        width=1536,
        experts=160,
        top_k=8,
        ranks=16,
        source="GLM-4.6 (355B) model configuration",
        notes=("1 shared expert", "router: sigmoid, weights times 2.5"),
        tiny_widths=32,
        tiny_experts=4,
    ),
    "mixtral-8x7b": Preset(
        hidden=4096,
        width=14336,
        experts=8,
        top_k=2,
        ranks=8,
        source="Mixtral-8x7B model configuration",
        notes=("router: softmax of the chosen 2",),
        tiny_widths=64,
        tiny_experts=1,
    ),
}


def preset_names() -> list[str]:
    """Returns the names of all presets and their small variants, sorted."""
    return sorted(name + end for name in PRESETS for end in ("", TINY))


def preset_layer(
    name: str,
    *,
    ranks: int | None = None,
    tokens: int | None = None,
    top_k: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> LayerConfig:
    """Returns the layer of the preset `name`; arguments override its sizes.

    Raises InputError for an unknown name, LayerError for sizes that contradict each other.
    """
    preset = PRESETS.get(name.removesuffix(TINY))
    if preset is None or name.endswith(TINY + TINY):
        raise InputError(f"unknown preset '{name}'{nearest(name, preset_names())}")
    small = name.endswith(TINY)
    widths = preset.tiny_widths if small else 1
    experts = preset.tiny_experts if small else 1
    scaled = f", widths / {widths}, experts and top-k / {experts}" if small else ""
    return LayerConfig(
        name,
        hidden=preset.hidden // widths,
        width=preset.width // widths,
        experts=preset.experts // experts,
        top_k=preset.top_k // experts if top_k is None else top_k,
        ranks=(TINY_RANKS if small else preset.ranks) if ranks is None else ranks,
        tokens=(TINY_TOKENS if small else 4096) if tokens is None else tokens,
        capacity=capacity,
        dtype="bf16" if dtype is None else dtype,
        source=preset.source + scaled,
        notes=preset.notes,
    )
