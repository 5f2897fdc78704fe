"""Reads layers from model configuration files: Hugging Face `config.json`, MindFormers YAML.

The entry of the model's family (`families/`) says which fields give the sizes, which decide what an
expert computes, and which concern other parts of the model. The latter become notes of the layer. A
field that the entry doesn't have is refused, and so is an unknown family: nothing is assumed of
what isn't understood.
"""

from __future__ import annotations

from pathlib import Path

from hpmoe_ir.frontends.config_hugging_face import hugging_face_model
from hpmoe_ir.frontends.config_mindformers import mindformers_model
from hpmoe_ir.frontends.config_model import ConfigOptions
from hpmoe_ir.frontends.config_reader import ConfigReader
from hpmoe_ir.frontends.config_text import load_config
from hpmoe_ir.layer.config import LayerConfig


def config_layer(path: Path, options: ConfigOptions | None = None) -> LayerConfig:
    """Reads the expert layer of a `.json`, `.yaml` or `.yml` file.

    Raises InputError for an invalid file, for a model whose experts don't compute the layer's or
    whose fields aren't all understood; LayerError for sizes that contradict each other.
    """
    options = options or ConfigOptions()
    data = load_config(path)
    if path.suffix == ".json":
        model = hugging_face_model(path, data, options)
    else:
        model = mindformers_model(path, data, options)
    return ConfigReader(model, options).layer()
