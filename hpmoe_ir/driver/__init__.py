"""From text to a compiled layer."""
