"""Losses, slack and exposed communication of small timelines with hand-computed results."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest

from hpmoe_ir.runtime.task_records import TASK, Records
from hpmoe_ir.timing.executed_order import ExecutedOrder
from hpmoe_ir.timing.losses import Losses, matrix_core_losses
from hpmoe_ir.timing.slack import slack_us
from hpmoe_ir.timing.usage import exclusive_ns


def task(core: int, turn: int, ready: int, end: int, busy: int = 0, alone: int = 0) -> Records:
    """A task of rank 0 whose work begins at once and whose signal leaves at its end; ns."""
    start = ready if busy else end
    return np.array([(0, core, 0, -1, turn, ready, start, end, end, busy, alone, 0, 0)], TASK)


def order(
    tasks: list[Records], signals: list[tuple[int, int, float]], waits: list[tuple[int, int]]
) -> ExecutedOrder:
    """Signals as task, counter and latency in ns; waits as task and counter."""
    return ExecutedOrder(
        np.concatenate(tasks),
        np.array([s[0] for s in signals], np.int64),
        np.array([s[1] for s in signals], np.int64),
        np.array([s[2] for s in signals], np.float64),
        np.array([w[0] for w in waits], np.int64),
        np.array([w[1] for w in waits], np.int64),
        counters=2,
    )


POLL = 100
PUT = 3
"""Row of the vector task from 3.5 to 5 us whose signal reaches row 1 at 5.5 us."""
TASKS = [
    task(0, 0, 1000, 3000, busy=1500, alone=2000 + POLL),
    task(0, 3000, 6000, 7000, busy=500, alone=500 + POLL),
    task(1, 1000, 1500, 2000),
    task(3, 0, 3500, 5000),
]
MATRIX = np.array([0, 1, 2])


def losses_of(made: ExecutedOrder, puts: bool = True) -> Losses:
    """On three matrix cores, one of which has no task; 8 us long."""
    sends = np.zeros(len(made.tasks), np.bool_)
    sends[PUT] = puts
    return matrix_core_losses(
        made, MATRIX, sends, cores=3, time_us=8, matrix_us=0.4, bound_us=2, poll_ns=POLL
    )


def test_the_losses_of_a_run_add_up():
    made = order(TASKS, [(PUT, 0, 500)], [(1, 0)])
    found = losses_of(made)
    expected = Losses(
        fill_us=1,  # until row 0 works
        drain_us=1,  # after row 1
        link_us=2 / 3,  # from 3.5 to 5.5 us the put was on its way
        event_us=0.5 / 3,  # from 3 to 3.5 us it had not begun
        poll_us=(0.5 + 0.5) / 3,  # of row 1 after 5.5 us, of row 2 all
        imbalance_us=(5 + 6) / 3,  # core 1 from 2 us, core 2 all the time
        empty_us=0.5 / 3,  # row 2
        stages_us=0,
        shared_us=0.5 / 3,  # row 1 took 1 us, alone 0.5
        tasks_us=2.5 / 3 - 0.4,
        excused_us=0.4 - 2,
    )
    assert asdict(found) == pytest.approx(asdict(expected))
    assert found.total_us == pytest.approx(8 - 2)


def test_waiting_for_a_task_that_does_not_send_is_not_a_link_loss():
    made = order(TASKS, [(PUT, 0, 500)], [(1, 0)])
    here, there = losses_of(made, puts=False), losses_of(made)
    assert here.link_us == 0
    assert here.event_us == pytest.approx(there.event_us + there.link_us)
    assert here.total_us == pytest.approx(6)


def test_a_gap_between_tasks_is_a_stage():
    """The same work, with row 1 held back from 3 to 4 us before it may poll."""
    later = [TASKS[0], task(0, 4000, 6000, 7000, busy=500, alone=500 + POLL), *TASKS[2:]]
    found = losses_of(order(later, [(PUT, 0, 500)], [(1, 0)]))
    assert found.stages_us == pytest.approx(1 / 3)
    assert found.event_us == 0
    assert found.link_us == pytest.approx(1.5 / 3)
    assert found.total_us == pytest.approx(6)


def test_a_rank_without_rows_only_fills():
    empty = [task(0, 0, 1000, 1100), task(0, 1100, 1200, 1300), task(1, 0, 5, 6), TASKS[3]]
    found = losses_of(order(empty, [], []))
    assert found.fill_us == 8
    assert (found.drain_us, found.imbalance_us, found.empty_us) == (0, 0, 0)
    assert found.tasks_us == -0.4
    assert found.total_us == pytest.approx(6)


CHAIN = [
    task(0, 0, 0, 2000),
    task(0, 2000, 2000, 4000),
    task(1, 0, 0, 1000),
    task(1, 1000, 1000, 1500),
]
"""Row 1 waits for the row before it and for a signal of row 2, which is there at 1.5 us."""


def test_slack_of_a_chain():
    made = order(CHAIN, [(2, 0, 500)], [(1, 0)])
    assert slack_us(made, 4).tolist() == [0, 0, 0.5, 2.5]


def test_slack_where_the_signal_is_last():
    """A signal that arrives at 2 us, with the task before it: neither may be later."""
    made = order(CHAIN, [(2, 0, 1000)], [(1, 0)])
    assert slack_us(made, 4).tolist() == [0, 0, 0, 2.5]
    # At 2.2 us: the first row now has time.
    later = [CHAIN[0], task(0, 2000, 2200, 4200), *CHAIN[2:]]
    found = slack_us(order(later, [(2, 0, 1200)], [(1, 0)]), 4.2)
    assert found.tolist() == pytest.approx([0.2, 0, 0, 2.7])


def test_work_after_the_signal_may_be_later_than_it():
    """Row 2 ends 0.3 us after its signal."""
    slow = CHAIN[2].copy()
    slow["done"] = 700
    found = slack_us(order([*CHAIN[:2], slow, CHAIN[3]], [(2, 0, 500)], [(1, 0)]), 4)
    assert found.tolist() == pytest.approx([0, 0, 0.8, 2.5])


def test_no_task_ends_after_its_stage():
    made = order(CHAIN, [(2, 0, 500)], [(1, 0)])
    found = slack_us(made, 4, stage=np.array([0, 1, 0, 1]))
    assert found.tolist() == [0, 0, 0.5, 2.5]
    found = slack_us(made, 4, stage=np.array([0, 1, 0, 0]))
    assert found.tolist() == [0, 0, 0.5, 0.5]


def test_the_last_signal_counts():
    made = order(CHAIN, [(2, 0, 500), (3, 0, 500), (3, 1, 0)], [(1, 0)])
    assert made.sender.tolist() == [-1, 3, -1, -1]
    assert made.arrival.tolist() == [-np.inf, 2000, -np.inf, -np.inf]
    none = replace(made, wait_task=made.wait_task[:0], wait_counter=made.wait_counter[:0])
    assert none.sender.tolist() == [-1] * 4


def test_communication_alone():
    """From 0 to 3 and 5 to 9, beside work from 1 to 2 and 6 to 12."""
    active = np.concatenate([task(0, 0, 0, 2), task(1, 0, 1, 3), task(0, 2, 5, 9)])
    others = np.concatenate([task(2, 0, 1, 2), task(2, 2, 6, 12)])
    assert exclusive_ns(active, others) == 1 + 1 + 1
    assert exclusive_ns(active, others[:0]) == 3 + 4
    assert exclusive_ns(active[:0], others) == 0
