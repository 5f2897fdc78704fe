"""Generated programs: random layers, graphs, lowerings and tile programs, and whether all levels
agree on them.

`python -m generated --help`, from `test/`, or `make fuzz`.
"""
