"""Layers from the configuration files of models: Hugging Face `config.json`, MindFormers YAML.

Both name the same sizes in several ways; the table `FIELDS` lists the spellings. What the file says
about the router and about shared experts is outside the expert part and only noted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, cast

import yaml

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.frontends.presets import PRESETS, Preset
from hpmoe_ir.layer.config import LayerConfig

Fields: TypeAlias = Mapping[str, object]

FIELDS: dict[str, tuple[str, ...]] = {
    "hidden size": ("hidden_size",),
    "number of experts": (
        "n_routed_experts",
        "num_experts",
        "num_local_experts",
        "num_moe_experts",
        "expert_num",
    ),
    "experts of a token": ("num_experts_per_tok", "moe_router_topk", "num_experts_chosen"),
    "expert width": ("moe_intermediate_size", "moe_ffn_hidden_size"),
}
"""Spellings of each size, the first found counts."""

ELEMENT_TYPES: dict[str, Dtype] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "f16",
    "fp16": "f16",
    "float32": "f32",
    "fp32": "f32",
}

SWIGLU = ("silu", "swish", "swiglu", "fusedswiglu")
"""Names of the activation that the layer has, in the two kinds of file."""

UNSUPPORTED = ("swiglu_limit", "activation_func_clamp_value", "moe_apply_probs_on_input")
"""Fields that change what the experts compute."""

DEFAULTS = {
    "deepseek_v3": PRESETS["deepseek-v3"],
    "qwen3_moe": PRESETS["qwen3-30b-a3b"],
    "mixtral": PRESETS["mixtral-8x7b"],
}
"""Sizes that a file with this `model_type` may leave out, as MindFormers' own often do."""

NOTED = {
    "n_shared_experts": "shared experts",
    "shared_expert_num": "shared experts",
    "first_k_dense_replace": "dense layers first",
    "scoring_func": "router score function",
    "moe_router_score_function": "router score function",
    "norm_topk_prob": "router normalises the weights of a token",
    "routed_scaling_factor": "router scales the weights",
    "moe_router_topk_scaling_factor": "router scales the weights",
    "topk_method": "router method",
}
"""Fields that concern what stays outside the expert part."""


def config_layer(
    path: Path,
    *,
    ranks: int | None = None,
    tokens: int | None = None,
    top_k: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> LayerConfig:
    """The expert layer that a `.json`, `.yaml` or `.yml` file describes, with sizes that are given.

    Without `ranks`, the file's expert-parallel size or 1; without `tokens`, its sequence length
    times its batch size where a YAML file has them, or 4096.
    Raises InputError for a file that can't be used, LayerError for sizes that don't fit.
    """
    if path.suffix not in (".json", ".yaml", ".yml"):
        raise InputError("expected a .json, .yaml or .yml file", str(path))
    reader = _Reader(path)
    model, training = reader.load_json() if path.suffix == ".json" else reader.load_yaml()
    reader.check_supported(model)
    experts = reader.size(model, "number of experts")
    return LayerConfig(
        _name(path, model, training),
        hidden=reader.size(model, "hidden size"),
        width=reader.width(model),
        experts=experts,
        top_k=reader.size(model, "experts of a token") if top_k is None else top_k,
        ranks=reader.ranks(model, training) if ranks is None else ranks,
        tokens=reader.tokens(model, training) if tokens is None else tokens,
        capacity=capacity,
        dtype=reader.dtype(model) if dtype is None else dtype,
        source=path.name + "".join(reader.defaults),
        notes=tuple(_outside(model)),
    )


def _outside(model: Fields) -> list[str]:
    """What the file says of the parts of the layer that are not ours."""
    values = {what: model[key] for key, what in NOTED.items() if model.get(key) is not None}
    return [f"{what}: {_shown(value)}" for what, value in values.items()]


def _name(path: Path, model: Fields, training: Fields) -> str:
    trainer = _mapping(training.get("trainer")) or {}
    for name in (trainer.get("model_name"), model.get("model_type")):
        if isinstance(name, str) and name:
            return name
    return path.stem


def _mapping(value: object) -> Fields | None:
    """The fields in `value`, None if it has none."""
    if not isinstance(value, dict):
        return None
    return {str(key): item for key, item in cast(dict[object, object], value).items()}


class _Reader:
    """Reads fields of one file; each message says the file, the field, expected and found."""

    def __init__(self, path: Path):
        self.path = path
        self.defaults: list[str] = []

    def fail(self, message: str) -> InputError:
        return InputError(message, str(self.path))

    def text(self) -> str:
        try:
            return self.path.read_text()
        except OSError as e:
            raise self.fail(f"can't read it: {e.strerror}") from e
        except UnicodeDecodeError as e:
            raise self.fail("expected text, found bytes that are no UTF-8") from e

    def load_json(self) -> tuple[Fields, Fields]:
        """The model's fields (those of its text part if it has several), and nothing else."""
        try:
            data: object = json.loads(self.text())
        except json.JSONDecodeError as e:
            raise InputError(f"not JSON: {e.msg}", f"{self.path}:{e.lineno}:{e.colno}") from e
        except (ValueError, RecursionError) as e:  # a number of thousands of digits, deep nesting
            raise self.fail(f"not JSON of a configuration: {e}") from e
        model = self.mapping(data, "the file")
        return _mapping(model.get("text_config")) or model, {}

    def load_yaml(self) -> tuple[Fields, Fields]:
        """The model's fields, and all of the file."""
        try:
            data: object = yaml.safe_load(self.text())
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark
            place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
            raise InputError(f"not YAML: {e.problem}", f"{self.path}{place}") from e
        except yaml.YAMLError as e:
            raise self.fail(f"not YAML: {one_line(str(e))}") from e
        except (ValueError, RecursionError) as e:  # no date, a number too long, deep nesting
            raise self.fail(f"not YAML of a configuration: {e}") from e
        training = self.mapping(data, "the file")
        if training.get("model") is None:
            raise self.fail(f"expected a field 'model', found {', '.join(sorted(training))}")
        model = self.mapping(training["model"], "model")
        if "model_config" in model:
            model = self.mapping(model["model_config"], "model_config")
        return model, training

    def mapping(self, value: object, what: str) -> Fields:
        fields = _mapping(value)
        if fields is None:
            raise self.fail(f"{what}: expected names with values, found {_shown(value)}")
        return fields

    def find(self, fields: Fields, spellings: Sequence[str]) -> tuple[str, object] | None:
        for key in spellings:
            if fields.get(key) is not None:
                return key, fields[key]
        return None

    def positive(self, key: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
            raise self.fail(f"{key}: expected a positive integer, found {_shown(value)}")
        return value

    def size(self, model: Fields, what: str) -> int:
        found = self.find(model, FIELDS[what])
        if found is not None:
            return self.positive(*found)
        kind = model.get("model_type")
        preset = DEFAULTS.get(kind) if isinstance(kind, str) else None
        if preset is None:
            dense = " (is it a model without experts?)" if what == "number of experts" else ""
            raise self.fail(
                f"no {what}: expected one of {', '.join(FIELDS[what])}, found none{dense}"
            )
        value = _preset_size(preset, what)
        self.defaults.append(f", {what} as in {kind}")
        return value

    def width(self, model: Fields) -> int:
        """Expert width; Mixtral calls it `intermediate_size`, which elsewhere is the dense one."""
        value = model.get("intermediate_size")
        named = self.find(model, FIELDS["expert width"])
        if named is None and "num_local_experts" in model and value is not None:
            return self.positive("intermediate_size", value)
        return self.size(model, "expert width")

    def ranks(self, model: Fields, training: Fields) -> int:
        for section in ("parallel_config", "parallelism"):
            value = (_mapping(training.get(section)) or {}).get("expert_parallel")
            if value is not None:
                return self.positive(f"{section}.expert_parallel", value)
        found = self.find(model, ("expert_model_parallel_size", "ep_size"))
        return self.positive(*found) if found else 1

    def tokens(self, model: Fields, training: Fields) -> int:
        length = self.find(model, ("seq_length",)) if training else None
        if length is None:
            return 4096
        tokens = self.positive(*length)
        for section, key in (("runner_config", "batch_size"), ("training", "local_batch_size")):
            value = (_mapping(training.get(section)) or {}).get(key)
            if value is not None:
                return tokens * self.positive(f"{section}.{key}", value)
        return tokens

    def dtype(self, model: Fields) -> Dtype:
        found = self.find(model, ("compute_dtype", "torch_dtype", "dtype"))
        if found is None:
            return "bf16"
        key, value = found
        if not isinstance(value, str) or value not in ELEMENT_TYPES:
            raise self.fail(
                f"{key}: expected one of {', '.join(ELEMENT_TYPES)}, found {_shown(value)}"
            )
        return ELEMENT_TYPES[value]

    def check_supported(self, model: Fields) -> None:
        """Refuses layers that compute something else, rather than compute another result."""
        act = model.get("hidden_act")
        if act is not None and act not in SWIGLU:
            raise self.fail(f"hidden_act: expected one of {', '.join(SWIGLU)}, found {_shown(act)}")
        for key, wanted in (("gated_linear_unit", True), ("add_bias_linear", False)):
            value = model.get(key)
            if value is not None and value is not wanted:
                raise self.fail(f"{key}: expected {_shown(wanted)}, found {_shown(value)}")
        for key in UNSUPPORTED:
            if model.get(key):
                raise self.fail(f"{key}: expected none, found {_shown(model[key])}")
        for key in ("moe_expert_capacity_factor", "capacity_factor"):
            value = model.get(key)
            if isinstance(value, (int, float)) and value > 0:
                raise self.fail(
                    f"{key}: expected none (no token is dropped), found {_shown(value)}"
                )


def _preset_size(preset: Preset, what: str) -> int:
    match what:
        case "hidden size":
            return preset.hidden
        case "number of experts":
            return preset.experts
        case "experts of a token":
            return preset.top_k
        case _:
            return preset.width


def _shown(value: object) -> str:
    """A value as the file would have it."""
    return json.dumps(value, default=str)
