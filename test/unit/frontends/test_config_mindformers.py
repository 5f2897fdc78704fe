"""Layers from MindFormers training files."""

import json
from pathlib import Path
from typing import Any

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_file import config_layer
from hpmoe_ir.frontends.config_model import ConfigOptions
from hpmoe_ir.layer.config import LayerConfig

# Shaped like the file that MindFormers ships for DeepSeek-V3, which leaves two sizes to the model.
DEEPSEEK = """
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
  gated_linear_unit: True
  add_bias_linear: False
  moe_ffn_hidden_size: 1024
  expert_num: 8
  num_experts_chosen: 4
"""

LEGACY = """
moe_config:
  expert_num: 8
  num_experts_chosen: 2
parallel_config:
  expert_parallel: 2
model:
  model_config:
    type: LlamaConfig
    hidden_size: 4096
    intermediate_size: 14336
    multiple_of: 256
    compute_dtype: "float16"
"""

MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "torch_dtype": "bfloat16",
}


def write(tmp_path: Path, content: str, name: str = "train.yaml") -> Path:
    path = tmp_path / name
    path.write_text(content)
    return path


def sizes(layer: LayerConfig) -> tuple[int, ...]:
    return (layer.hidden, layer.width, layer.experts, layer.top_k, layer.ranks, layer.tokens)


def message(path: Path, options: ConfigOptions | None = None) -> str:
    with pytest.raises(InputError) as e:
        config_layer(path, options)
    return str(e.value)


def test_sizes_that_the_model_has_by_default_are_named(tmp_path: Path):
    layer = config_layer(write(tmp_path, DEEPSEEK))
    assert layer.name == "deepseekV3"
    assert sizes(layer) == (7168, 2048, 256, 8, 32, 8192)
    assert layer.notes == ("shared experts: 1 by default", "router has groups of experts: 8")
    assert layer.source == (
        "train.yaml, number of experts as in deepseek_v3, experts of a token as in deepseek_v3"
    )
    few = DEEPSEEK + "    shared_expert_num: 0\n"
    assert config_layer(write(tmp_path, few)).notes == ("router has groups of experts: 8",)


def test_other_spellings(tmp_path: Path):
    layer = config_layer(write(tmp_path, PYNATIVE, "train.yml"))
    assert sizes(layer) == (1792, 1024, 8, 4, 2, 300)


def test_options_take_the_place_of_sizes(tmp_path: Path):
    options = ConfigOptions(ranks=4, tokens=7, top_k=2, capacity=9, dtype="f16")
    layer = config_layer(write(tmp_path, DEEPSEEK), options)
    assert sizes(layer) == (7168, 2048, 256, 2, 4, 7)
    assert (layer.capacity, layer.dtype) == (9, "f16")


@pytest.mark.parametrize(
    "old, new, expected",
    [
        (
            "  gated_linear_unit: True\n",
            "",
            "gated_linear_unit: expected true (experts are SwiGLU), found none, which means false "
            "in the model",
        ),
        (
            "  add_bias_linear: False\n",
            "",
            "add_bias_linear: expected false (experts have no biases), found none, which means "
            "true in the model",
        ),
        (
            "hidden_act: swiglu",
            "hidden_size: 1792",
            "hidden_size: expected the field once, found it twice",
        ),
        (
            "  hidden_act: swiglu\n",
            "",
            "hidden_act: expected silu or swish or swiglu or fusedswiglu (experts are SwiGLU), "
            'found none, which means "gelu" in the model',
        ),
        (
            "  seq_length: 100\n",
            "  moe_apply_probs_on_input: True\n",
            "moe_apply_probs_on_input: expected false or none (router weights scale the experts' "
            "results), found true",
        ),
        (
            "  seq_length: 100\n",
            "  activation_func_clamp_value: 7.0\n",
            "activation_func_clamp_value: expected false or none (experts don't clamp), found 7.0",
        ),
        (
            "  seq_length: 100\n",
            "  add_mlp_fc1_bias_linear: True\n",
            "add_mlp_fc1_bias_linear: expected false or none (experts have no biases), found true",
        ),
        (
            "  seq_length: 100\n",
            "  moe_expert_capacity_factor: 1.5\n",
            "moe_expert_capacity_factor: expected none (no token is dropped), found 1.5",
        ),
        (
            "  seq_length: 100\n",
            "  num_experts: 16\n",
            "expected one number of experts, found expert_num 8 and num_experts 16",
        ),
        (
            "  seq_length: 100\n",
            "  expert_scale: 2.0\n",
            "expert_scale: unknown field of the family mindformers, found 2.0; if it doesn't "
            "concern the experts, --outside expert_scale",
        ),
        (
            "model_type: telechat",
            "model_type: deepseek_v4",
            "deepseek_v4: experts clamp gate and up before SwiGLU, the layer's don't",
        ),
    ],
)
def test_other_experts_are_refused(tmp_path: Path, old: str, new: str, expected: str):
    assert old in PYNATIVE
    path = write(tmp_path, PYNATIVE.replace(old, new))
    place, _, found = message(path).partition(" error: ")
    assert place.startswith(str(path))
    assert found == expected


@pytest.mark.parametrize(
    "old, new, expected",
    [
        ("expert_num: 8", "expert_num: 4", (4096, 14336, 4, 2, 2, 4096)),
        ("expert_num: 8", "expert_num: 8\n  capacity_factor: -1", (4096, 14336, 8, 2, 2, 4096)),
        ("expert_num: 8", "expert_num: 8\n  shared_expert_num: 1", (4096, 14336, 8, 2, 2, 4096)),
        ("multiple_of: 256", "num_experts_per_tok: 2", (4096, 14336, 8, 2, 2, 4096)),
        (
            "  model_config:\n",
            "  arch: {type: LlamaForCausalLM}\n  model_config:\n",
            (4096, 14336, 8, 2, 2, 4096),
        ),
        ("  expert_parallel: 2", "  data_parallel: 2", (4096, 14336, 8, 2, 1, 4096)),
        ("model:\n", "runner_config: {batch_size: 4}\nmodel:\n", (4096, 14336, 8, 2, 2, 4096)),
    ],
)
def test_files_with_moe_config(tmp_path: Path, old: str, new: str, expected: tuple[int, ...]):
    assert old in LEGACY
    layer = config_layer(write(tmp_path, LEGACY.replace(old, new)))
    assert sizes(layer) == expected
    assert layer.dtype == "f16"


def test_the_capacity_by_default_is_noted(tmp_path: Path):
    note = (
        "MindFormers drops tokens by default (capacity factor 1.1 of MoEConfig); the layer drops "
        "none"
    )
    assert config_layer(write(tmp_path, LEGACY)).notes == (note,)
    none = LEGACY.replace("expert_num: 8", "expert_num: 8\n  capacity_factor: -1")
    assert config_layer(write(tmp_path, none)).notes == ()


@pytest.mark.parametrize(
    "old, new, expected",
    [
        (
            "expert_num: 8",
            "expert_num: 1",
            "expected at least 2 experts, found 1 (is it a model without experts?)",
        ),
        (
            "expert_num: 8",
            "expert_num: 8\n  capacity_factor: 1.1",
            "capacity_factor: expected none (no token is dropped), found 1.1",
        ),
        (
            "expert_num: 8",
            "expert_num: 8\n  hidden_size: 64",
            "moe_config.hidden_size: expected the 4096 of the model, found 64",
        ),
        (
            "expert_num: 8",
            "expert_num: 8\n  hot_expert_num: 1",
            "hot_expert_num: unknown field of the family mindformers, found 1; if it doesn't "
            "concern the experts, --outside hot_expert_num",
        ),
        (
            "type: LlamaConfig",
            "type: GPT2Config",
            "model.model_config.type: expected LlamaConfig beside moe_config, found GPT2Config; if "
            "the experts compute what those of a known family do, --family NAME",
        ),
        (
            "    intermediate_size: 14336\n",
            "",
            "no expert width: expected intermediate_size or moe_intermediate_size, found none; "
            "--width gives it",
        ),
        (
            "  expert_num: 8\n",
            "",
            "no number of experts: expected expert_num or n_routed_experts or num_experts or "
            "num_moe_experts, found none (is it a model without experts?); --experts gives it",
        ),
        ("model:\n  model_config:\n", "other:\n  x:\n", "expected a field 'model', found "
         "moe_config, other, parallel_config"),
    ],
)  # fmt: skip
def test_files_with_moe_config_are_refused(tmp_path: Path, old: str, new: str, expected: str):
    assert old in LEGACY
    path = write(tmp_path, LEGACY.replace(old, new))
    assert message(path) == f"{path}: error: {expected}"


def folder(tmp_path: Path, content: dict[str, Any]) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "config.json").write_text(json.dumps(content))


@pytest.mark.parametrize(
    "content, expected, ranks",
    [
        ("pretrained_model_dir: weights\n", (4096, 14336, 8, 2), 1),
        ("pretrained_model_dir: ./weights/\nmodel: {}\n", (4096, 14336, 8, 2), 1),
        (
            "pretrained_model_dir: weights\nmodel: {model_config: {seq_length: 64}}\n"
            "parallel_config: {expert_parallel: 4}\n",
            (4096, 14336, 8, 2),
            4,
        ),
        (
            "pretrained_model_dir: weights\nmodel: {model_config: {num_local_experts: 16}}\n",
            (4096, 14336, 16, 2),
            1,
        ),
        (
            "pretrained_model_dir: weights\nmodel: {model_config: {hidden_size: 1024, "
            "add_bias_linear: False, params_dtype: float32}}\n",
            (1024, 14336, 8, 2),
            1,
        ),
    ],
)
def test_the_folder_of_the_weights_has_the_model(
    tmp_path: Path, content: str, expected: tuple[int, ...], ranks: int
):
    folder(tmp_path, MIXTRAL)
    layer = config_layer(write(tmp_path, content))
    assert sizes(layer)[:5] == (*expected, ranks)
    assert layer.source.startswith("train.yaml and ")
    assert layer.source.endswith("weights/config.json")


@pytest.mark.parametrize(
    "model, content, place, expected",
    [
        (
            MIXTRAL,
            "pretrained_model_dir: elsewhere\n",
            "train.yaml",
            "pretrained_model_dir: expected a folder with a config.json, found none in 'elsewhere'",
        ),
        (
            MIXTRAL,
            "pretrained_model_dir: [weights]\n",
            "train.yaml",
            'pretrained_model_dir: expected the name of a folder, found ["weights"]',
        ),
        (
            MIXTRAL | {"mlp_bias": True},
            "pretrained_model_dir: weights\n",
            "train.yaml",
            "mlp_bias: expected false or none (experts have no biases), found true",
        ),
        (
            MIXTRAL | {"model_type": "llama4_text"},
            "pretrained_model_dir: weights\n",
            "train.yaml",
            "llama4: router weights multiply the tokens, the layer's the experts' results",
        ),
        (
            MIXTRAL | {"model_type": "unheard_of"},
            "pretrained_model_dir: weights\n",
            "weights/config.json",
            'model_type: unknown model "unheard_of", of whose experts nothing is known',
        ),
        (
            MIXTRAL,
            "pretrained_model_dir: weights\nmodel: {model_config: {hidden_act: gelu}}\n",
            "train.yaml",
            "hidden_act: expected silu or swish or swiglu or fusedswiglu (experts are SwiGLU), "
            'found "gelu"',
        ),
        (
            MIXTRAL,
            "pretrained_model_dir: weights\nmodel: {model_config: {expert_num: 16}}\n",
            "train.yaml",
            "expected one number of experts, found num_local_experts 8 and expert_num 16",
        ),
        (
            MIXTRAL,
            "pretrained_model_dir: weights\nmodel: {model_config: {model_type: qwen3_moe}}\n",
            "train.yaml",
            'model_type: expected the "mixtral" of weights/config.json, found "qwen3_moe"',
        ),
    ],
)
def test_the_folder_of_the_weights_can_be_wrong(
    tmp_path: Path, model: dict[str, Any], content: str, place: str, expected: str
):
    folder(tmp_path, model)
    found = message(write(tmp_path, content))
    assert found.startswith(f"{tmp_path / place}: error: {expected}")


@pytest.mark.parametrize(
    "content, expected",
    [
        ("a: 1", "expected a field 'model', found a"),
        ("model: 3", "model: expected a mapping, found 3"),
        ("model: 3\npretrained_model_dir: x", "model: expected a mapping, found 3"),
        (
            "model: {model_config: {model_type: qwen3_moe}, num_experts: 4}",
            "model.num_experts: expected it in model.model_config, found it beside that",
        ),
        (
            "model: {model_type: qwen3_moe, architectures: [MyMoeForCausalLM]}",
            "architectures: expected a class of the family qwen3_moe, Qwen3Moe, found "
            '"MyMoeForCausalLM"; if its experts compute the same, --family qwen3_moe',
        ),
        (
            "moe_config: {expert_num: 8}\nmodel: {model_config: {type: LlamaConfig}, "
            "arch: {type: MyMoe}}",
            'model.arch.type: expected LlamaForCausalLM, found "MyMoe"',
        ),
        ("model: {model_config: [1]}", "model_config: expected a mapping, found [1]"),
        ("moe_config: 4\nmodel: {hidden_size: 1}", "moe_config: expected a mapping, found 4"),
        (
            "model: {moe_config: {expert_num: 8}}\nmoe_config: {expert_num: 4}",
            "expected one moe_config, found one in model and one beside it",
        ),
    ],
)
def test_files_without_a_model_are_refused(tmp_path: Path, content: str, expected: str):
    path = write(tmp_path, content)
    assert message(path) == f"{path}: error: {expected}"
