"""Mutated text inputs of the commands: every case ends with a result or a message, nothing else.

`python -m text_fuzz --help`, with `test` on the path. A case is made from a seed and its number
alone, so that what is reported can be run again; nothing is stored.
"""
