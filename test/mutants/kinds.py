"""The kinds of mutants of the IR and of the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mutants import event_mutants as events
from mutants import order_mutants as orders
from mutants import region_mutants as regions
from mutants import table_mutants as tables
from mutants.mutant import Kind

LAYERS = ("queue IR", "task table", "generated source", "device headers")
"""What is broken."""

IR_KINDS: tuple[Kind, ...] = (
    events.drop_wait,
    events.shift_wait,
    events.constant_wait,
    events.other_wait,
    events.drop_signal,
    events.repeat_signal,
    events.shift_signal,
    events.constant_signal,
    events.other_signal,
    events.change_peer,
    events.raise_threshold,
    events.lower_threshold,
    events.share_counter,
    events.counters_in_window,
    orders.swap_tasks,
    orders.move_task,
    orders.repeat_task,
    orders.more_cores,
    regions.shift_region,
    regions.grow_region,
    regions.shrink_region,
    regions.change_put,
    regions.alias_buffers,
    regions.one_copy,
)

TABLE_KINDS: tuple[tables.TableKind, ...] = (
    tables.threshold_word,
    tables.slot_word,
    tables.queue_bound,
    tables.size_word,
    tables.offset_word,
    tables.header_word,
)


def kind_name(kind: Callable[..., Any]) -> str:
    """`drop_wait` as `drop-wait`."""
    return kind.__name__.replace("_", "-")


def layer_of(id: str) -> str:
    """Where the mutant of this name is made."""
    if id.startswith("hpmoe/"):
        return "device headers"
    kind = id.split(":")[1]
    if kind in map(kind_name, IR_KINDS):
        return "queue IR"
    return "task table" if kind in map(kind_name, TABLE_KINDS) else "generated source"
