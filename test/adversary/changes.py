"""Changes of queue programs that an adversary tries, besides those of `mutants`."""

from __future__ import annotations

import random

from mutants import event_mutants, order_mutants, region_mutants
from mutants.mutant import Kind

from adversary.access_changes import (
    accumulate,
    fewer_points,
    other_buffer,
    other_rows,
    own_window,
    recut,
    same_part,
    say_scatter,
    whole,
)
from adversary.buffer_changes import (
    alias,
    copies,
    fewer_rows,
    other_capacity,
    other_place,
    other_space,
    window_behind,
)
from adversary.event_changes import (
    Mutation,
    fewer_signals,
    line_gap,
    merged_events,
    more_waits,
    other_counters,
    own_credit,
)
from hpmoe_ir.dialects.queue import ProgramOp


def _of(kind: Kind) -> Mutation:
    """A kind of `mutants` as a mutation."""

    def mutation(program: ProgramOp, chance: random.Random) -> bool:
        changes = list(kind(program))
        if not changes:
            return False
        chance.choice(changes).apply(program)
        return True

    mutation.__name__ = kind.__name__
    return mutation


MUTATIONS: tuple[Mutation, ...] = (
    *map(
        _of,
        (
            event_mutants.drop_wait,
            event_mutants.drop_wait,
            event_mutants.shift_wait,
            event_mutants.constant_wait,
            event_mutants.other_wait,
            event_mutants.other_wait,
            event_mutants.drop_signal,
            event_mutants.shift_signal,
            event_mutants.other_signal,
            event_mutants.constant_signal,
            event_mutants.change_peer,
            event_mutants.raise_threshold,
            event_mutants.lower_threshold,
            event_mutants.share_counter,
            order_mutants.swap_tasks,
            order_mutants.swap_tasks,
            order_mutants.move_task,
            order_mutants.move_task,
            order_mutants.move_task,
            region_mutants.change_put,
        ),
    ),
    recut,
    recut,
    whole,
    same_part,
    other_buffer,
    other_buffer,
    own_window,
    fewer_points,
    other_rows,
    accumulate,
    say_scatter,
    fewer_rows,
    other_space,
    copies,
    fewer_signals,
    merged_events,
    line_gap,
    line_gap,
    other_counters,
    window_behind,
    own_credit,
    other_capacity,
    other_place,
    more_waits,
    more_waits,
    more_waits,
    alias,
)
"""What is drawn from; what leaves programs right is there more often."""
