"""Layers from configuration files, as published and broken."""

import json
from pathlib import Path
from typing import Any

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_file import config_layer
from hpmoe_ir.layer.config import LayerConfig, LayerError

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

# Shaped like the file that MindFormers ships for DeepSeek-V3, which leaves two sizes to the model.
MINDFORMERS = """
trainer:
  type: CausalLanguageModelingTrainer
  model_name: 'deepseekV3'
runner_config:
  epochs: 1
  batch_size: 2
parallel_config:
  data_parallel: 4
  model_parallel: 8
  expert_parallel: 32
model:
  model_config:
    model_type: "deepseek_v3"
    seq_length: 4096
    hidden_size: 7168
    intermediate_size: 18432
    add_bias_linear: False
    params_dtype: "float32"
    compute_dtype: "bfloat16"
    gated_linear_unit: True
    moe_intermediate_size: 2048
    n_group: 8
"""

PYNATIVE = """
training:
  local_batch_size: 3
parallelism:
  expert_parallel: 2
model:
  model_type: telechat
  seq_length: 100
  hidden_size: 1792
  hidden_act: swiglu
  moe_ffn_hidden_size: 1024
  expert_num: 8
  num_experts_chosen: 4
"""


def write(tmp_path: Path, content: Any, name: str = "config.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def sizes(layer: LayerConfig) -> tuple[int, ...]:
    return (layer.hidden, layer.width, layer.experts, layer.top_k, layer.ranks, layer.tokens)


@pytest.mark.parametrize(
    "content, expected, dtype",
    [
        (DEEPSEEK, (7168, 2048, 256, 8, 1, 4096), "bf16"),
        (QWEN3, (2048, 768, 128, 8, 1, 4096), "f16"),
        (MIXTRAL, (4096, 14336, 8, 2, 1, 4096), "bf16"),
        ({"text_config": MIXTRAL, "vision_config": {}}, (4096, 14336, 8, 2, 1, 4096), "bf16"),
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
        'router score function: "sigmoid"',
        "router normalises the weights of a token: true",
    )


def test_mindformers(tmp_path: Path):
    layer = config_layer(write(tmp_path, MINDFORMERS, "pretrain.yaml"))
    assert layer.name == "deepseekV3"
    assert sizes(layer) == (7168, 2048, 256, 8, 32, 8192)
    assert layer.notes == ()
    assert layer.source == (
        "pretrain.yaml, number of experts as in deepseek_v3, experts of a token as in deepseek_v3"
    )


def test_mindformers_with_other_spellings(tmp_path: Path):
    layer = config_layer(write(tmp_path, PYNATIVE, "pretrain.yml"))
    assert sizes(layer) == (1792, 1024, 8, 4, 2, 300)


def test_arguments_override_sizes(tmp_path: Path):
    path = write(tmp_path, MINDFORMERS, "pretrain.yaml")
    layer = config_layer(path, ranks=4, tokens=7, top_k=2, capacity=9, dtype="f16")
    assert sizes(layer) == (7168, 2048, 256, 2, 4, 7)
    assert (layer.capacity, layer.dtype) == (9, "f16")


def test_sizes_must_fit_each_other(tmp_path: Path):
    with pytest.raises(LayerError) as e:
        config_layer(write(tmp_path, DEEPSEEK), ranks=3)
    assert str(e.value) == (
        "layer 'deepseek_v3': experts: expected a multiple of the 3 ranks, found 256"
    )


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"hidden_size": "7168"}, 'hidden_size: expected a positive integer, found "7168"'),
        ({"n_routed_experts": 0}, "n_routed_experts: expected a positive integer, found 0"),
        (
            {"num_experts_per_tok": True},
            "num_experts_per_tok: expected a positive integer, found true",
        ),
        (
            {"hidden_act": "gelu"},
            'hidden_act: expected one of silu, swish, swiglu, fusedswiglu, found "gelu"',
        ),
        ({"gated_linear_unit": False}, "gated_linear_unit: expected true, found false"),
        ({"add_bias_linear": True}, "add_bias_linear: expected false, found true"),
        (
            {"torch_dtype": "int8"},
            "torch_dtype: expected one of bfloat16, bf16, float16, fp16, float32, fp32, "
            'found "int8"',
        ),
        ({"swiglu_limit": 10.0}, "swiglu_limit: expected none, found 10.0"),
        (
            {"capacity_factor": 1.5},
            "capacity_factor: expected none (no token is dropped), found 1.5",
        ),
        (
            {"n_routed_experts": None, "model_type": "llama"},
            "no number of experts: expected one of n_routed_experts, num_experts, "
            "num_local_experts, num_moe_experts, expert_num, found none "
            "(is it a model without experts?)",
        ),
        (
            {"moe_intermediate_size": None, "model_type": None},
            "no expert width: expected one of moe_intermediate_size, moe_ffn_hidden_size, "
            "found none",
        ),
    ],
)
def test_fields_that_do_not_fit_are_refused(tmp_path: Path, changes: dict[str, Any], message: str):
    path = write(tmp_path, DEEPSEEK | changes)
    with pytest.raises(InputError) as e:
        config_layer(path)
    assert str(e.value) == f"{path}: error: {message}"


@pytest.mark.parametrize(
    "name, content, place, message",
    [
        ("c.json", '{\n "a": }', ":2:7", "not JSON: Expecting value"),
        ("c.json", "[1]", "", "the file: expected a mapping, found [1]"),
        ("c.yaml", "a: [1\nb: 2", ":2:2", "not YAML: expected ',' or ']', but got ':'"),
        ("c.yaml", "a: 1", "", "expected a field 'model', found a"),
        ("c.yaml", "model: 3", "", "model: expected a mapping, found 3"),
        ("c.toml", "", "", "expected a .json, .yaml or .yml file"),
    ],
)
def test_broken_files_are_refused(
    tmp_path: Path, name: str, content: str, place: str, message: str
):
    path = write(tmp_path, content, name)
    with pytest.raises(InputError) as e:
        config_layer(path)
    assert str(e.value) == f"{path}{place}: error: {message}"


def test_missing_files_are_refused(tmp_path: Path):
    with pytest.raises(InputError) as e:
        config_layer(tmp_path / "none.json")
    assert str(e.value) == (
        f"{tmp_path / 'none.json'}: error: can't read it: No such file or directory"
    )


def test_binary_files_are_refused(tmp_path: Path):
    path = tmp_path / "c.json"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError) as e:
        config_layer(path)
    assert str(e.value) == f"{path}: error: expected text, found bytes that are not UTF-8"
