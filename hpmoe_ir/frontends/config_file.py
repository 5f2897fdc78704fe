"""Reads layers from model configuration files: Hugging Face `config.json`, MindFormers YAML.

Both formats have several names for the same size, which the table `FIELDS` lists. Fields of the
router and of shared experts do not concern the expert part and become notes of the layer.
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
"""Field names of each size; the first one present is read."""

ELEMENT_TYPES: dict[str, Dtype] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "f16",
    "fp16": "f16",
    "float32": "f32",
    "fp32": "f32",
}

SWIGLU = ("silu", "swish", "swiglu", "fusedswiglu")
"""Names of the SwiGLU activation in the two file formats."""

UNSUPPORTED = ("swiglu_limit", "activation_func_clamp_value", "moe_apply_probs_on_input")
"""Fields that change the function of the experts, refused unless false."""

DEFAULTS = {
    "deepseek_v3": PRESETS["deepseek-v3"],
    "qwen3_moe": PRESETS["qwen3-30b-a3b"],
    "mixtral": PRESETS["mixtral-8x7b"],
}
"""Default sizes by `model_type`; files of MindFormers often omit some."""

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
"""Fields that concern parts outside the experts, with their meaning."""


def config_layer(
    path: Path,
    *,
    ranks: int | None = None,
    tokens: int | None = None,
    top_k: int | None = None,
    capacity: int | None = None,
    dtype: Dtype | None = None,
) -> LayerConfig:
    """Reads the expert layer of a `.json`, `.yaml` or `.yml` file; arguments override its sizes.

    `ranks` defaults to the file's expert-parallel size or 1, `tokens` to the sequence length times
    the batch size of a YAML file or 4096. Raises InputError for an invalid file, LayerError for
    sizes that contradict each other.
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
        notes=tuple(_notes(model)),
    )


def _notes(model: Fields) -> list[str]:
    """Returns the facts of the file about parts of the model outside the experts."""
    values = {part: model[key] for key, part in NOTED.items() if model.get(key) is not None}
    return [f"{part}: {_shown(value)}" for part, value in values.items()]


def _name(path: Path, model: Fields, training: Fields) -> str:
    trainer = _mapping(training.get("trainer")) or {}
    for name in (trainer.get("model_name"), model.get("model_type")):
        if isinstance(name, str) and name:
            return name
    return path.stem


def _mapping(value: object) -> Fields | None:
    """Returns `value` as a mapping of fields, None if it is not one."""
    if not isinstance(value, dict):
        return None
    return {str(key): item for key, item in cast(dict[object, object], value).items()}


class _Reader:
    """Reads the fields of one file; messages name the file, the field, expected and found."""

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
            raise self.fail("expected text, found bytes that are not UTF-8") from e

    def load_json(self) -> tuple[Fields, Fields]:
        """Returns the fields of the model (its text part, if it has one) and no training fields."""
        try:
            data: object = json.loads(self.text())
        except json.JSONDecodeError as e:
            raise InputError(f"not JSON: {e.msg}", f"{self.path}:{e.lineno}:{e.colno}") from e
        except (ValueError, RecursionError) as e:  # an overlong number or deep nesting
            raise self.fail(f"not a JSON configuration: {e}") from e
        model = self.mapping(data, "the file")
        return _mapping(model.get("text_config")) or model, {}

    def load_yaml(self) -> tuple[Fields, Fields]:
        """Returns the fields of the model and of the whole file."""
        try:
            data: object = yaml.safe_load(self.text())
        except yaml.MarkedYAMLError as e:
            mark = e.problem_mark
            place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
            raise InputError(f"not YAML: {e.problem}", f"{self.path}{place}") from e
        except yaml.YAMLError as e:
            raise self.fail(f"not YAML: {one_line(str(e))}") from e
        except (ValueError, RecursionError) as e:  # invalid date, overlong number, deep nesting
            raise self.fail(f"not a YAML configuration: {e}") from e
        training = self.mapping(data, "the file")
        if training.get("model") is None:
            raise self.fail(f"expected a field 'model', found {', '.join(sorted(training))}")
        model = self.mapping(training["model"], "model")
        if "model_config" in model:
            model = self.mapping(model["model_config"], "model_config")
        return model, training

    def mapping(self, value: object, name: str) -> Fields:
        fields = _mapping(value)
        if fields is None:
            raise self.fail(f"{name}: expected a mapping, found {_shown(value)}")
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

    def size(self, model: Fields, name: str) -> int:
        field = self.find(model, FIELDS[name])
        if field is not None:
            return self.positive(*field)
        kind = model.get("model_type")
        preset = DEFAULTS.get(kind) if isinstance(kind, str) else None
        if preset is None:
            dense = " (is it a model without experts?)" if name == "number of experts" else ""
            raise self.fail(
                f"no {name}: expected one of {', '.join(FIELDS[name])}, found none{dense}"
            )
        value = _preset_size(preset, name)
        self.defaults.append(f", {name} as in {kind}")
        return value

    def width(self, model: Fields) -> int:
        """Returns the expert width, which in Mixtral alone is the field `intermediate_size`."""
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
        field = self.find(model, ("expert_model_parallel_size", "ep_size"))
        return self.positive(*field) if field else 1

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
        field = self.find(model, ("compute_dtype", "torch_dtype", "dtype"))
        if field is None:
            return "bf16"
        key, value = field
        if not isinstance(value, str) or value not in ELEMENT_TYPES:
            raise self.fail(
                f"{key}: expected one of {', '.join(ELEMENT_TYPES)}, found {_shown(value)}"
            )
        return ELEMENT_TYPES[value]

    def check_supported(self, model: Fields) -> None:
        """Raises InputError for experts that are not plain SwiGLU, or that drop tokens."""
        act = model.get("hidden_act")
        if act is not None and act not in SWIGLU:
            raise self.fail(f"hidden_act: expected one of {', '.join(SWIGLU)}, found {_shown(act)}")
        for key, required in (("gated_linear_unit", True), ("add_bias_linear", False)):
            value = model.get(key)
            if value is not None and value is not required:
                raise self.fail(f"{key}: expected {_shown(required)}, found {_shown(value)}")
        for key in UNSUPPORTED:
            if model.get(key):
                raise self.fail(f"{key}: expected none, found {_shown(model[key])}")
        for key in ("moe_expert_capacity_factor", "capacity_factor"):
            value = model.get(key)
            if isinstance(value, (int, float)) and value > 0:
                raise self.fail(
                    f"{key}: expected none (no token is dropped), found {_shown(value)}"
                )


def _preset_size(preset: Preset, name: str) -> int:
    match name:
        case "hidden size":
            return preset.hidden
        case "number of experts":
            return preset.experts
        case "experts of a token":
            return preset.top_k
        case _:
            return preset.width


def _shown(value: object) -> str:
    """Returns a value as JSON, for messages."""
    return json.dumps(value, default=str)
