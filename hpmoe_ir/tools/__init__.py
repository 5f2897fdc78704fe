"""Command-line tools: `hpmoe` and `hpmoe-opt`."""
