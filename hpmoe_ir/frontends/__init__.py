"""Ways in: from a preset, a configuration file or a MindSpore graph to a layer in `moe`."""
