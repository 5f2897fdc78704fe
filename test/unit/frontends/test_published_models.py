"""Configurations of published models: what is read, noted and refused, as the docs say."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_file import config_layer
from hpmoe_ir.frontends.config_model import ConfigOptions

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "test" / "data" / "configs"
PAGE = ROOT / "docs" / "importing.md"
FILES = sorted((*CONFIGS.glob("published/*.json"), *CONFIGS.glob("further/*.json")))
FILE = {path.stem: path for path in FILES}

SIZES = {
    "deepseek-v2": (5120, 1536, 160, 6),
    "deepseek-v2-lite": (2048, 1408, 64, 6),
    "deepseek-v3": (7168, 2048, 256, 8),
    "dbrx": (6144, 10752, 16, 4),
    "dots.llm1": (4096, 1408, 128, 6),
    "ernie-4.5-21b-a3b": (2560, 1536, 64, 6),
    "glm-4.5": (5120, 1536, 160, 8),
    "glm-4.5-air": (4096, 1408, 128, 8),
    "granite-3.0-1b-a400m": (1024, 512, 32, 8),
    "granite-4.0-h-small": (4096, 768, 72, 10),
    "hunyuan-a13b": (4096, 3072, 64, 8),
    "jamba-v0.1": (4096, 14336, 16, 2),
    "jetmoe-8b": (2048, 5632, 8, 2),
    "kimi-k2": (7168, 2048, 384, 8),
    "ling-lite": (2048, 1408, 64, 6),
    "llada-moe-7b-a1b": (2048, 1024, 64, 8),
    "minimax-m1": (6144, 9216, 32, 2),
    "minimax-m2": (3072, 1536, 256, 8),
    "mixtral-8x22b": (6144, 16384, 8, 2),
    "mixtral-8x7b": (4096, 14336, 8, 2),
    "moonlight-16b-a3b": (2048, 1408, 64, 6),
    "olmoe-1b-7b": (2048, 1024, 64, 8),
    "phi-3.5-moe": (4096, 6400, 16, 2),
    "qwen1.5-moe-a2.7b": (2048, 1408, 60, 4),
    "qwen3-235b-a22b": (4096, 1536, 128, 8),
    "qwen3-30b-a3b": (2048, 768, 128, 8),
    "qwen3-next-80b-a3b": (2048, 512, 512, 10),
    "step-3": (7168, 5120, 48, 3),
}
"""Hidden size, expert width, experts and top k of the models whose experts are the layer's."""

REFUSED = {
    "gpt-oss-120b": "biases and a clamped SwiGLU",
    "grok-1": "GELU",
    "llama-4-maverick": "router weights multiply the tokens",
    "llama-4-scout": "router weights multiply the tokens",
    "longcat-flash": "return the token as it is",
    "nemotron-3-nano": "down(relu(up(x))^2) without a gate",
}
"""A part of the reason for the models whose experts compute something else."""


def words() -> dict[str, str]:
    """Returns the word of the table for the beginning of each note, from the list in the docs."""
    found: dict[str, str] = {}
    for line in PAGE.read_text().splitlines():
        match = re.fullmatch(r"- `(\w+)`: (.*)\.", line)
        if match:
            found |= {about: match[1] for about in match[2].split("; ")}
    return found


def row(path: Path) -> str:
    """Returns the row of the table in the docs for a file."""
    try:
        layer = config_layer(path)
    except InputError as e:
        return f"| {path.stem} | | | {e.message.partition(': ')[2]} |"
    known = words()
    noted = dict.fromkeys(known[note.partition(": ")[0]] for note in layer.notes)
    read = f"{layer.hidden}, {layer.width}, {layer.top_k} of {layer.experts}"
    return f"| {path.stem} | {read} | {', '.join(noted)} | |"


def test_every_file_is_one_of_the_two_kinds():
    assert len(list(CONFIGS.glob("published/*.json"))) == 25
    assert {path.stem for path in FILES} == {*SIZES, *REFUSED}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_table_of_the_docs_says_what_is_imported(path: Path):
    rows = [r for r in PAGE.read_text().splitlines() if r.startswith(f"| {path.stem} |")]
    assert rows == [row(path)]


@pytest.mark.parametrize("name", SIZES)
def test_layers_have_the_published_sizes(name: str):
    path = FILE[name]
    layer = config_layer(path)
    assert (layer.hidden, layer.width, layer.experts, layer.top_k) == SIZES[name]
    assert layer.source == path.name
    layer.check_lowerable()


@pytest.mark.parametrize("name", REFUSED)
def test_models_with_other_experts_are_refused_with_the_reason(name: str):
    path = FILE[name]
    with pytest.raises(InputError, match=re.escape(REFUSED[name])):
        config_layer(path)


CHANGES: tuple[tuple[str, Any], ...] = (
    ("hidden_act", "gelu"),
    ("hidden_act", "relu2"),
    ("hidden_activation", "gelu_pytorch_tanh"),
    ("mlp_bias", True),
    ("moe_token_dropping", True),
    ("capacity_factor", 1.25),
    ("swiglu_limit", 7.0),
    ("zero_expert_num", 4),
    ("moe_latent_size", 1024),
    ("apply_router_weight_on_input", True),
    ("expert_scale", 2.0),
    ("ffn_kind", "plain"),
    ("experts", {"activation": "gelu"}),
)
"""Fields that make the experts another function, or that no entry knows."""


@pytest.mark.parametrize("name", SIZES)
def test_no_model_is_imported_with_fields_that_change_its_experts(name: str, tmp_path: Path):
    path = FILE[name]
    published = json.loads(path.read_text())
    for field, value in CHANGES:
        changed = tmp_path / "config.json"
        changed.write_text(json.dumps(published | {field: value}))
        with pytest.raises(InputError) as e:
            config_layer(changed)
        named = f"{field}.activation" if isinstance(value, dict) else field
        assert e.value.message.startswith(f"{named}: "), e.value.message


@pytest.mark.parametrize("name", SIZES)
def test_a_size_that_a_file_lacks_is_never_that_of_another_model(name: str, tmp_path: Path):
    path = FILE[name]
    published: dict[str, Any] = json.loads(path.read_text())
    published.pop("ffn_config", None)
    experts = SIZES[name][2]
    changed = tmp_path / "config.json"
    changed.write_text(json.dumps({k: v for k, v in published.items() if v != experts}))
    with pytest.raises(InputError, match=r"no number of experts: .*; --experts gives it$"):
        config_layer(changed)
    layer = config_layer(changed, ConfigOptions(experts=64, top_k=2, width=128))
    assert (layer.hidden, layer.width, layer.experts, layer.top_k) == (
        SIZES[name][0],
        128,
        64,
        2,
    )
