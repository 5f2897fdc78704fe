"""The description of a layer outside the IR: sizes, routings and input values."""
