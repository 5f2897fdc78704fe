"""The choice of `auto` for a layer, made once and then remembered."""

from __future__ import annotations

from hpmoe_ir.driver.compiler import Progress
from hpmoe_ir.schedule.auto import candidate_lines, choose, expected_lines
from hpmoe_ir.schedule.candidates import Layer, auto_candidates
from hpmoe_ir.schedule.remembered import Choice, remember, remembered


def chosen_schedule(layer: Layer, progress: Progress = lambda _: None) -> Choice:
    """Returns the pipeline that `auto` chooses for a layer, and the report of its choice.

    Raises InputError if no candidate can be used, if a routing of the layer's conditions does not
    fit it, or if the cache directory can't be written.
    """
    candidates = auto_candidates(layer)
    if known := remembered(layer, candidates):
        return known
    found = choose(layer, candidates, progress)
    lines = [*expected_lines(layer.conditions, found), *candidate_lines(found)]
    choice = Choice(found[0].text, tuple(lines))
    remember(layer, candidates, choice)
    return choice
