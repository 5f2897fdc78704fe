"""Frontends: presets, configuration files and MindSpore graphs to a layer in the `moe` dialect."""
