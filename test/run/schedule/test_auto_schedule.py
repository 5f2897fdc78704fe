"""The schedule that timed runs choose: its candidates, and that the fastest is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.driver.compiler import PassError
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.policies.tiles import Tiles
from hpmoe_ir.passes.set_waits import SetWaitsPass
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass
from hpmoe_ir.schedule.auto import Candidate, candidate_lines, choose, evaluate, expected_lines
from hpmoe_ir.schedule.candidates import (
    Layer,
    Passes,
    auto_candidates,
    auto_lowerings,
    experts_beside_sums,
    fitting_groups,
)
from hpmoe_ir.schedule.chosen import chosen_schedule
from hpmoe_ir.schedule.conditions import USUAL, Condition, conditions_for
from hpmoe_ir.schedule.estimate import least_us
from hpmoe_ir.schedule.named import NAMED

FAST = (LowerMoePass(),)

SMALL = preset_layer("deepseek-v3-tiny").with_sizes(ranks=2, tokens=64)


def layer(name: str = "ascend-a3") -> Layer:
    """A layer for uniform routing on the machine as it is described."""
    return Layer(make_context(), layer_module(SMALL), None, load_machine(name), USUAL[:1])


def test_the_fastest_candidate_comes_first():
    """Two pipelines that only differ in how often a core looks: the slow look must lose."""
    fast, slow = FAST, (*FAST, SetWaitsPass(poll_aic=50000, poll_aiv=50000))
    found = choose(layer(), [slow, fast])
    assert [c.passes for c in found] == [fast, slow]
    assert found[0].time_us < found[1].time_us
    assert found[0].over_bound >= 1
    assert found[0] == evaluate(layer(), fast)


def test_a_candidate_that_is_refused_is_told_and_last():
    wrong = (LowerMoePass(source_groups=3),)
    found = choose(layer(), [wrong, FAST])
    assert found[-1].passes == wrong
    assert "'source-groups': expected 0 to 2 groups, found 3" in found[-1].refused
    assert "refused" in candidate_lines(found)[-1]
    with pytest.raises(InputError, match=r"no candidate can be used: .*source-groups"):
        choose(layer(), [wrong])


def test_what_verify_queues_refuses_is_not_chosen(monkeypatch: pytest.MonkeyPatch):
    """It is asked about the fastest alone: one that it refuses makes way for the next."""
    fast, slow = FAST, (*FAST, SetWaitsPass(poll_aic=50000, poll_aiv=50000))
    asked: list[ModuleOp] = []
    verify = VerifyQueuesPass.apply

    def apply(self: VerifyQueuesPass, ctx: Context, op: ModuleOp) -> None:
        asked.append(op)
        if len(asked) == 1:
            raise PassFailedException("verify-queues: planted")
        verify(self, ctx, op)

    monkeypatch.setattr(VerifyQueuesPass, "apply", apply)
    found = choose(layer(), [slow, fast])
    assert [c.passes for c in found] == [slow, fast]
    assert "verify-queues: planted" in found[1].refused
    assert len(asked) == 2


def test_candidates_follow_from_the_sizes():
    large = preset_layer("deepseek-v3").with_sizes(ranks=64, tokens=4096)
    # 128 rows from each rank to each expert: a part of one rank fills a matrix tile.
    assert fitting_groups(large, 128) == [64, 32]
    assert fitting_groups(SMALL, 128) == [1]
    lowerings = auto_lowerings(replace(layer(), graph=layer_module(large)))
    assert LowerMoePass() in lowerings
    whole = LowerMoePass(
        policy=Overlap(behind=3),
        rotate_sources=True,
        source_groups=64,
        token_chunks=47,
        return_cols=1792,
    )
    assert whole in lowerings
    assert replace(whole, return_cols=1024, last_experts=2) in lowerings
    tiles = LowerMoePass(row_cut="tiles", return_cols=1792, policy=Tiles(), token_chunks=47)
    assert tiles in lowerings
    assert len(lowerings) == len(set(lowerings))
    assert all(found.machine == "ascend-a2" for found in auto_lowerings(layer("ascend-a2")))


@pytest.mark.parametrize(("ranks", "experts"), [(8, 9), (16, 5), (64, 2)])
def test_sums_are_as_long_as_the_last_products_beside_them(ranks: int, experts: int):
    """Nine rows of 14336 bytes a token at 0.725 TB/s: 729 us; products of 2718 us at the peak."""
    config = preset_layer("deepseek-v3").with_sizes(ranks=ranks, tokens=4096)
    assert experts_beside_sums(config, load_machine("ascend-a3")) == experts


@pytest.mark.parametrize("routing", ["balanced", "uniform", "zipf:0.5"])
def test_the_routing_looks_the_same_from_each_rank(routing: str):
    config = preset_layer("deepseek-v3").with_sizes(ranks=8, tokens=96)
    ids = Condition(routing, symmetric=True).ids(config)
    counts = [np.bincount(part.ravel(), minlength=config.experts) for part in ids]
    for rank, found in enumerate(counts):
        assert (np.roll(found, -rank * config.local_experts) == counts[0]).all()
    assert all(len(set(row)) == config.top_k for row in ids[3])


def test_a_routing_that_does_not_fit_is_refused_before_anything_is_compiled(
    monkeypatch: pytest.MonkeyPatch,
):
    compiled: list[str] = []

    def compile_module(*_: Any, **__: Any) -> None:
        compiled.append("a candidate")
        raise PassError("passes", "planted")

    monkeypatch.setattr("hpmoe_ir.schedule.auto.compile_module", compile_module)
    for routing, message in (
        ("imbalance:9", "--schedule-for: imbalance: expected at most 2 times the mean"),
        ("nowhere.npz", "--schedule-for: nowhere.npz: "),
    ):
        with pytest.raises(InputError, match=message):
            choose(replace(layer(), conditions=conditions_for(routing)), [FAST])
    assert compiled == []
    with pytest.raises(InputError, match="no candidate can be used"):
        choose(replace(layer(), conditions=conditions_for("imbalance:2")), [FAST])
    assert compiled == ["a candidate"]


def test_another_routing_is_timed_on_all_ranks():
    """All rows to one rank's experts: it is slower than balanced, and its bound is larger."""
    balanced = evaluate(layer(), FAST).kernels[0]
    other = replace(layer(), conditions=conditions_for("one-expert"))
    uneven = evaluate(other, FAST).kernels[0]
    assert uneven.bounds.matrix_us > 1.5 * balanced.bounds.matrix_us
    assert uneven.time_us >= uneven.bounds.bound_us


def test_every_named_schedule_is_a_candidate():
    candidates = auto_candidates(layer())
    for name, schedule in NAMED.items():
        assert schedule.passes(load_machine("ascend-a3")) in candidates, name
    assert len(candidates) == len(set(candidates))


def test_the_least_expected_time_is_chosen():
    """Links and memory at their slow ends count like other routings of the same layer."""
    usual = replace(layer(), conditions=USUAL)
    others = [(LowerMoePass(token_chunks=n),) for n in (2, 4)]
    found = choose(usual, others)
    assert all(len(candidate.timed) == len(USUAL) for candidate in found)
    assert found[0].time_us == pytest.approx(sum(found[0].times_us) / len(USUAL))
    assert found[0].time_us <= found[1].time_us
    times = dict(zip(USUAL, found[0].times_us, strict=True))
    nominal = times[USUAL[0]]
    assert all(us > nominal for condition, us in times.items() if condition.slow)
    assert times == dict(zip(USUAL, evaluate(usual, found[0].passes).times_us, strict=True))
    head, *rest = expected_lines(USUAL, found)
    assert f"{min(times.values()):.0f} to {max(times.values()):.0f}" in head
    assert [line.partition("of the best  ")[2] for line in rest] == [c.text for c in USUAL]


def test_far_behind_under_one_condition_is_not_timed_under_others():
    slow = (*FAST, SetWaitsPass(poll_aic=50000, poll_aiv=50000))
    found = choose(replace(layer(), conditions=USUAL), [slow, FAST])
    assert [len(candidate.timed) for candidate in found] == [1, 1]
    assert found[0].passes == FAST


@pytest.mark.parametrize("backward", [None, DeriveBackwardPass()])
def test_estimates_are_below_timed_runs(backward: DeriveBackwardPass | None):
    """For products of real sizes, parts with a few rows more than a tile among them."""
    config = preset_layer("qwen3-30b-a3b").with_sizes(ranks=2, experts=8, tokens=300)
    large = replace(layer(), graph=layer_module(config), backward=backward)
    ids = USUAL[0].ids(config)
    for passes in (*auto_candidates(large)[:4], *(NAMED[n].passes(large.machine) for n in NAMED)):
        assert 0 < least_us(large, passes, ids) < evaluate(large, passes).time_us


def test_what_is_estimated_slower_is_not_compiled():
    """Half the parts of one source of eight have a second tile, which loads the weights again."""
    large = replace(layer(), graph=layer_module(preset_layer("deepseek-v3", ranks=8)))
    whole, parts = NAMED["tiles"].passes(large.machine), NAMED["waves"].passes(large.machine)
    found = choose(large, [whole, parts])
    assert found[1].passes == parts
    assert not found[1].timed
    assert found[1].least_us > found[0].time_us
    assert "1 others: not timed, at least" in candidate_lines(found)[-1]


def test_a_choice_is_remembered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Until the layer, the machine or the package is another, or the file is damaged."""
    monkeypatch.setenv("HPMOE_CACHE", str(tmp_path))
    asked: list[list[Passes]] = []

    def choose_first(layer: Layer, candidates: list[Passes], _: object) -> list[Candidate]:
        asked.append(candidates)
        return [Candidate(FAST, refused="planted")]

    monkeypatch.setattr("hpmoe_ir.schedule.chosen.choose", choose_first)
    first = chosen_schedule(layer())
    assert first.pipeline == "lower-moe"
    assert "planted" in first.lines[0]
    assert chosen_schedule(layer()) == first
    assert len(asked) == 1
    for other in (
        replace(layer(), machine=layer().machine.with_rate("core_bandwidth.link", 5e9)),
        replace(layer(), conditions=USUAL),
        replace(layer(), backward=DeriveBackwardPass()),
        replace(layer(), graph=layer_module(SMALL.with_sizes(tokens=65))),
    ):
        before = len(asked)
        chosen_schedule(other)
        assert len(asked) == before + 1
    for damage in ("", "{}", '["lower-moe", 3]', "[]"):
        for file in tmp_path.glob("schedule-*.json"):
            file.write_text(damage)
        before = len(asked)
        assert chosen_schedule(layer()) == first
        assert len(asked) == before + 1
    monkeypatch.setattr("hpmoe_ir.schedule.remembered.source_digest", lambda: "another")
    before = len(asked)
    chosen_schedule(layer())
    assert len(asked) == before + 1
