"""Layers from configuration files, as published and broken."""

import json
from pathlib import Path
from typing import Any

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_file import config_layer
from hpmoe_ir.frontends.config_model import ConfigOptions
from hpmoe_ir.layer.config import LayerConfig, LayerError

FAULTS = Path(__file__).parents[2] / "data" / "configs" / "faults"

DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_act": "silu",
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "norm_topk_prob": True,
    "scoring_func": "sigmoid",
    "ep_size": 1,
    "torch_dtype": "bfloat16",
}
QWEN3 = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "torch_dtype": "float16",
}
MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
HUNYUAN = {
    "model_type": "hunyuan_v1_moe",
    "hidden_size": 4096,
    "intermediate_size": 3072,
    "num_experts": 64,
    "moe_topk": [8, 8, 8],
    "moe_intermediate_size": [3072, 3072, 3072],
    "num_shared_expert": [1, 1, 1],
}


def write(tmp_path: Path, content: Any, name: str = "config.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def sizes(layer: LayerConfig) -> tuple[int, ...]:
    return (layer.hidden, layer.width, layer.experts, layer.top_k, layer.ranks, layer.tokens)


def message(path: Path, options: ConfigOptions | None = None) -> str:
    with pytest.raises(InputError) as e:
        config_layer(path, options)
    return str(e.value)


@pytest.mark.parametrize(
    "content, expected, dtype",
    [
        (DEEPSEEK, (7168, 2048, 256, 8, 1, 4096), "bf16"),
        (QWEN3, (2048, 768, 128, 8, 1, 4096), "f16"),
        (MIXTRAL, (4096, 14336, 8, 2, 1, 4096), "bf16"),
        ({"text_config": MIXTRAL, "vision_config": {}}, (4096, 14336, 8, 2, 1, 4096), "bf16"),
        (
            {"model_type": "kimi_vl", "architectures": ["KimiVL"], "language_config": DEEPSEEK},
            (7168, 2048, 256, 8, 1, 4096),
            "bf16",
        ),
        ({"llm_config": MIXTRAL, "torch_dtype": "float16"}, (4096, 14336, 8, 2, 1, 4096), "f16"),
        (HUNYUAN, (4096, 3072, 64, 8, 1, 4096), "bf16"),
        (HUNYUAN | {"moe_intermediate_size": None}, (4096, 3072, 64, 8, 1, 4096), "bf16"),
        (
            MIXTRAL | {"model_type": None, "architectures": ["MixtralForCausalLM"]},
            (4096, 14336, 8, 2, 1, 4096),
            "bf16",
        ),
        (MIXTRAL | {"num_experts": 8}, (4096, 14336, 8, 2, 1, 4096), "bf16"),
    ],
)
def test_hugging_face(tmp_path: Path, content: Any, expected: tuple[int, ...], dtype: str):
    layer = config_layer(write(tmp_path, content))
    assert sizes(layer) == expected
    assert layer.dtype == dtype
    assert layer.source == "config.json"


def test_facts_outside_the_experts_become_notes(tmp_path: Path):
    layer = config_layer(write(tmp_path, DEEPSEEK))
    assert layer.name == "deepseek_v3"
    assert layer.notes == (
        "shared experts: 1",
        "dense layers first: 3 by default",
        'router score function: "sigmoid"',
        "router normalises the weights of a token: true",
    )


def test_lists_of_notes_are_shown_in_short_if_they_agree(tmp_path: Path):
    notes = config_layer(write(tmp_path, HUNYUAN)).notes
    assert "shared experts: 1" in notes
    notes = config_layer(write(tmp_path, HUNYUAN | {"num_shared_expert": [1, 2, 1]})).notes
    assert "shared experts: [1, 2, 1]" in notes
    notes = config_layer(
        write(tmp_path, HUNYUAN | {"num_shared_expert": [1, 2, 1]}), ConfigOptions(layer=1)
    ).notes
    assert "shared experts: 2" in notes


@pytest.mark.parametrize(
    "name, expected",
    [
        ("ernie-4.5-21b.json", (2560, 1536, 64, 6, 1, 4096)),
        ("granite-4-h-small.json", (4096, 768, 72, 10, 1, 4096)),
        ("olmoe-1b-7b.json", (2048, 1024, 64, 8, 1, 4096)),
        ("step3.json", (7168, 5120, 48, 3, 1, 4096)),
        ("mindformers-moe_config.yaml", (4096, 14336, 8, 2, 2, 4096)),
    ],
)
def test_layers_in_other_spellings_are_read(name: str, expected: tuple[int, ...]):
    assert sizes(config_layer(FAULTS / name)) == expected


def test_shared_experts_of_granite_are_noted():
    layer = config_layer(FAULTS / "granite-4-h-small.json")
    assert "width of the shared experts: 1536" in layer.notes


@pytest.mark.parametrize(
    "name, expected",
    [
        (
            "llama4-scout.json",
            "llama4: router weights multiply the tokens, the layer's the experts' results",
        ),
        (
            "nemotron-3-nano.json",
            "nemotron_h: experts are down(relu(up(x))^2) without a gate, the layer's are SwiGLU",
        ),
        (
            "x-drop.json",
            "moe_token_dropping: expected false or none (no token is dropped), found true",
        ),
        (
            "x-hidden_activation.json",
            "hidden_activation: expected silu or swish or swiglu or none (experts are SwiGLU), "
            'found "gelu_pytorch_tanh"',
        ),
        (
            "x-mlp_bias.json",
            "mlp_bias: expected false or none (experts have no biases), found true",
        ),
    ],
)
def test_other_layers_are_refused(name: str, expected: str):
    assert message(FAULTS / name) == f"{FAULTS / name}: error: {expected}"


def test_the_given_sizes_take_the_place_of_the_files(tmp_path: Path):
    options = ConfigOptions(
        hidden=64, width=32, experts=16, top_k=2, ranks=4, tokens=7, capacity=9, dtype="f16"
    )
    layer = config_layer(write(tmp_path, DEEPSEEK), options)
    assert sizes(layer) == (64, 32, 16, 2, 4, 7)
    assert (layer.capacity, layer.dtype) == (9, "f16")


@pytest.mark.parametrize(
    "content, options",
    [
        ({"model_type": "olmoe", "hidden_size": 2048}, {"experts": 64, "top_k": 8, "width": 1024}),
        (
            {"model_type": "ernie4_5_moe", "moe_k": 8, "hidden_size": 2048},
            {"experts": 64, "width": 1024},
        ),
        (
            {"model_type": "step3_text", "moe_num_experts": 64, "moe_top_k": 8},
            {"hidden": 2048, "width": 1024},
        ),
        (
            {"model_type": "dbrx", "d_model": 2048, "ffn_config": {"moe_top_k": 8}},
            {"experts": 64, "width": 1024},
        ),
        (
            HUNYUAN | {"moe_topk": [8, 4], "hidden_size": 2048},
            {"top_k": 8, "width": 1024},
        ),
        (
            HUNYUAN | {"moe_intermediate_size": [3072, 1024], "hidden_size": 2048},
            {"layer": 1, "width": 1024},
        ),
    ],
)
def test_options_fill_what_a_file_lacks(tmp_path: Path, content: Any, options: dict[str, Any]):
    layer = config_layer(write(tmp_path, content), ConfigOptions(**options))
    assert sizes(layer)[:4] == (2048, 1024, 64, 8)


def test_a_layer_of_lists_that_differ_can_be_chosen(tmp_path: Path):
    path = write(tmp_path, HUNYUAN | {"moe_topk": [8, 4, 2], "moe_intermediate_size": [16, 32, 64]})
    assert message(path) == (
        f"{path}: error: moe_intermediate_size: expected the same for all layers, found 16 to 64; "
        "--layer N reads one layer, --width gives the size"
    )
    assert sizes(config_layer(path, ConfigOptions(layer=2)))[1:4] == (64, 64, 2)
    assert message(path, ConfigOptions(layer=3)) == (
        f"{path}: error: moe_intermediate_size: expected a value for layer 3, found 3 values"
    )


def test_lists_of_rules_are_read_by_layer(tmp_path: Path):
    path = write(tmp_path, MIXTRAL | {"swiglu_limits": [0.0, 7.0]})
    assert sizes(config_layer(path, ConfigOptions(layer=0)))[:2] == (4096, 14336)
    for options in (None, ConfigOptions(layer=1)):
        assert message(path, options) == (
            f"{path}: error: swiglu_limits: expected none or 0 (experts don't clamp), found 7.0"
        )


def test_unknown_fields_can_be_said_to_be_outside(tmp_path: Path):
    path = write(tmp_path, MIXTRAL | {"head_style": "plain", "gadget": {"size": 3, "on": None}})
    assert message(path) == (
        f"{path}: error: head_style: unknown field of the family mixtral, found "
        '"plain"; if it doesn\'t concern the experts, --outside head_style'
    )
    assert message(path, ConfigOptions(outside=("head_style",))) == (
        f"{path}: error: gadget.size: unknown field of the family mixtral, found 3; if it doesn't "
        "concern the experts, --outside gadget.size"
    )
    layer = config_layer(path, ConfigOptions(outside=("head_style", "gadget.size")))
    assert layer.notes[-2:] == (
        'head_style, by --outside: "plain"',
        "gadget.size, by --outside: 3",
    )


def test_the_user_can_name_the_family(tmp_path: Path):
    path = write(tmp_path, MIXTRAL | {"model_type": "mixtrale"})
    assert message(path) == (
        f'{path}: error: model_type: unknown model "mixtrale", of whose experts nothing is known; '
        "did you mean 'mixtral'?; if they compute what those of a known family do, --family NAME"
    )
    assert sizes(config_layer(path, ConfigOptions(family="mixtral")))[:2] == (4096, 14336)
    assert message(path, ConfigOptions(family="mixtrul")) == (
        "error: --family: unknown family 'mixtrul'; did you mean 'mixtral'?"
    )


def test_sizes_must_fit_each_other(tmp_path: Path):
    with pytest.raises(LayerError) as e:
        config_layer(write(tmp_path, DEEPSEEK), ConfigOptions(ranks=3))
    assert str(e.value) == (
        "layer 'deepseek_v3': experts: expected a multiple of the 3 ranks, found 256"
    )


OUTSIDE = "if it doesn't concern the experts, --outside"


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"hidden_size": "7168"}, 'hidden_size: expected a positive integer, found "7168"'),
        ({"n_routed_experts": 0}, "n_routed_experts: expected a positive integer, found 0"),
        ({"hidden_size": 4096.0}, "hidden_size: expected a positive integer, found 4096.0"),
        (
            {"hidden_size": 10**30},
            "hidden_size: expected at most 2147483647, found a larger number",
        ),
        (
            {"n_routed_experts": 1},
            "expected at least 2 experts, found 1 (is it a model without experts?)",
        ),
        (
            {"num_experts_per_tok": True},
            "num_experts_per_tok: expected a positive integer, found true",
        ),
        ({"num_experts_per_tok": []}, "num_experts_per_tok: expected a positive integer, found []"),
        (
            {"hidden_act": "gelu"},
            'hidden_act: expected silu or swish or swiglu (experts are SwiGLU), found "gelu"',
        ),
        (
            {"hidden_act": None},
            "hidden_act: expected silu or swish or swiglu (experts are SwiGLU), found null",
        ),
        (
            {"hidden_act": "swigluoai"},
            'hidden_act: expected silu or swish or swiglu (experts are SwiGLU), found "swigluoai"',
        ),
        (
            {"mlp_hidden_act": "relu2"},
            "mlp_hidden_act: expected silu or swish or swiglu or none (experts are SwiGLU), found "
            '"relu2"',
        ),
        (
            {"gated_linear_unit": False},
            "gated_linear_unit: expected true or none (experts are SwiGLU), found false",
        ),
        (
            {"add_bias_linear": True},
            "add_bias_linear: expected false or none (experts have no biases), found true",
        ),
        ({"mlp_bias": 1}, "mlp_bias: expected false or none (experts have no biases), found 1"),
        (
            {"moe_apply_probs_on_input": True},
            "moe_apply_probs_on_input: expected false or none (router weights scale the experts' "
            "results), found true",
        ),
        (
            {"torch_dtype": "int8"},
            "torch_dtype: expected one of bfloat16, bf16, float16, fp16, float32, fp32, "
            'found "int8"',
        ),
        (
            {"dtype": "float16"},
            "expected one element type, found torch_dtype bf16 and dtype f16; --dtype gives it",
        ),
        (
            {"swiglu_limit": 10.0},
            "swiglu_limit: expected false or none (experts don't clamp), found 10.0",
        ),
        (
            {"capacity_factor": 1.5},
            "capacity_factor: expected none (no token is dropped), found 1.5",
        ),
        (
            {"moe_capacity": [256, 255]},
            "moe_capacity: expected none (no token is dropped), found 255",
        ),
        (
            {"num_local_experts": 64},
            "expected one number of experts, found n_routed_experts 256 and num_local_experts 64",
        ),
        (
            {"num_experts": 256},
            "num_experts: unknown field of the family deepseek_v3, found 256; "
            f"{OUTSIDE} num_experts",
        ),
        (
            {"expert_scale": 2.0},
            "expert_scale: unknown field of the family deepseek_v3, found 2.0; "
            f"{OUTSIDE} expert_scale",
        ),
        (
            {"top_k": 4},
            "top_k: expected none or 50 (the default of sampling), found 4",
        ),
        (
            {"architectures": ["MixtralForCausalLM"]},
            "architectures: expected a class of the family deepseek_v3, DeepseekV3 or DeepseekV32, "
            'found "MixtralForCausalLM"; if its experts compute the same, --family deepseek_v3',
        ),
        (
            {"architectures": ["DeepseekV3ForCausalLM", "DeepseekV3Scaled"]},
            "architectures: expected a class of the family deepseek_v3, DeepseekV3 or DeepseekV32, "
            'found "DeepseekV3Scaled"; if its experts compute the same, --family deepseek_v3',
        ),
        (
            {"ffn": {"kind": 1}, "ffn.kind": 1},
            "ffn.kind: expected the field once, found it twice",
        ),
        (
            {"two\nlines": 1},
            '"two\\nlines": unknown field of the family deepseek_v3, found 1; '
            f'{OUTSIDE} "two\\nlines"',
        ),
        (
            {"n_routed_experts": None, "model_type": "dots1"},
            "no number of experts: expected n_routed_experts or num_local_experts, found none "
            "(is it a model without experts?); --experts gives it",
        ),
        (
            {"moe_intermediate_size": None, "model_type": "dots1"},
            "no expert width: expected moe_intermediate_size, found none; --width gives it",
        ),
        (
            {"text_config": MIXTRAL, "llm_config": MIXTRAL},
            "expected one of the sections text_config, llm_config, language_config, found "
            "text_config and llm_config",
        ),
        (
            {"text_config": DEEPSEEK | {"n_routed_experts": 64}},
            "n_routed_experts: expected one value, found 256 and, in text_config, 64",
        ),
    ],
)
def test_fields_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], expected: str):
    path = write(tmp_path, DEEPSEEK | changes)
    assert message(path) == f"{path}: error: {expected}"


def test_a_file_that_names_no_model_is_refused(tmp_path: Path):
    path = write(tmp_path, MIXTRAL | {"model_type": None})
    assert message(path).startswith(
        f"{path}: error: expected a known model_type or architectures, to know what the experts "
        "compute, found none; known: arctic, bailing_moe, "
    )


def test_a_large_capacity_drops_nothing(tmp_path: Path):
    assert config_layer(write(tmp_path, DEEPSEEK | {"capacity_factor": 256})).experts == 256
    assert config_layer(write(tmp_path, DEEPSEEK | {"capacity_factor": -1})).experts == 256
