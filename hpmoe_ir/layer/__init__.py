"""A layer before any IR: sizes, routing and values."""
