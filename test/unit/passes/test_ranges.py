"""What the proof takes from waits for ranges of events, and what it must not take."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.context import Context

from hpmoe_ir.dialects.access import PartsOfTile
from hpmoe_ir.dialects.queue import ProgramOp, waits_of
from hpmoe_ir.dialects.tile.types import EventRangeAttr
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.tiles import Tiles
from hpmoe_ir.passes.proof.known_ranks import ranks_after
from hpmoe_ir.passes.proof.rank_sets import has_rank
from hpmoe_ir.passes.proof.run import run_queues
from hpmoe_ir.passes.proof.tasks import queue_tasks

LAYER = preset_layer("deepseek-v3-tiny").with_sizes(
    ranks=4, experts=8, hidden=32, width=16, tokens=24
)


def layer_with_tiles() -> ProgramOp:
    module = layer_module(LAYER)
    passes = LowerMoePass(row_cut="tiles", row_tiles=9, tile_m=16, policy=Tiles())
    passes.apply(Context(), module)
    (program,) = (op for op in module.ops if isinstance(op, ProgramOp))
    return program


def receivers_follow(program: ProgramOp) -> bool:
    """Whether a task of the receiver is known to start after each put to another rank with rows."""
    tasks = queue_tasks(program)
    after = ranks_after(run_queues(tasks)).with_rows
    dispatch = next(f for f in tasks.families if f.sym_name.data == "dispatch")
    numbers = tasks.tasks_of(dispatch)
    events = tasks.signals[numbers.ravel()].max(axis=1)
    to = events // tasks.events_per_rank
    far = to != numbers.ravel() // tasks.per_rank
    return bool(has_rank(after[numbers.ravel()[far]], np.asarray(to[far])).all())


def test_some_tile_waits_for_a_part_with_rows() -> None:
    assert receivers_follow(layer_with_tiles())


@pytest.mark.parametrize("step", [2, 9])
def test_not_if_no_task_waits_for_some_tiles(step: int) -> None:
    """The rows of a part may all be of tiles for which nobody waits."""
    program = layer_with_tiles()
    ranges = [wait for wait in waits_of(program) if isinstance(wait.event_range, PartsOfTile)]
    assert ranges
    for wait in ranges:
        assert wait.event_range is not None
        wait.among = EventRangeAttr(wait.event_range.map_exprs(lambda e: e // step * step))
    assert not receivers_follow(program)
