"""Options as fields: what they may be, and that their text gives the same value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

import pytest
from xdsl.utils.arg_spec import parse_spec as xdsl_parse_spec

from hpmoe_ir.driver.specs import passes_in, pipeline_text
from hpmoe_ir.machines.machine import load_machine, machine_names
from hpmoe_ir.options.options import Choice, OptionError, Options, Range, make, option_types
from hpmoe_ir.options.text import Spec, parse_spec
from hpmoe_ir.passes.analysis.pass_kinds import expanded, level_left
from hpmoe_ir.passes.assign_queues import AssignQueuesPass
from hpmoe_ir.passes.pipeline import LowerMoePass, lower_moe
from hpmoe_ir.passes.policies.overlap import Overlap
from hpmoe_ir.passes.policies.registry import built_in_policies, policies
from hpmoe_ir.passes.policies.serial import Serial
from hpmoe_ir.schedule.named import NAMED, is_serial
from hpmoe_ir.universe import PASSES


@dataclass(frozen=True)
class Shape(Options):
    """Something with a size."""

    name = "shape"

    size: Annotated[int, Range(2, 8, "cells", 2)] = 2


def shapes() -> dict[str, Callable[[], type[Shape]]]:
    return {"shape": lambda: Shape}


@dataclass(frozen=True)
class Box(Options):
    """Something with options of all kinds."""

    name = "box"

    label: str
    shape: Annotated[Shape, Choice("shape", shapes)] = Shape(4)
    sides: tuple[int, ...] = ()
    lid: Literal["open", "shut"] = "open"
    depth: Annotated[int | None, Range(1)] = None
    light: bool = False


BOX = Box("a b", Shape(6), (1, 2), "shut", 3, True)
TEXT = 'box{label="a b" shape=shape{size=6} sides=1,2 lid=shut depth=3 light=true}'


def box(text: str) -> Box:
    return make("thing", parse_spec(text), {"box": lambda: Box})


def test_the_text_of_options_gives_the_same_options():
    assert str(BOX) == TEXT
    assert box(TEXT) == BOX
    assert str(Box("x")) == "box{label=x}"
    assert box("box{label=x depth}") == Box("x")


def test_plain_xdsl_has_the_same_options_with_those_of_a_choice_in_quotes():
    text = str(BOX.spec())
    assert 'shape="shape{size=6}"' in text
    assert Box.from_spec(xdsl_parse_spec(text)) == BOX
    assert box(text) == BOX


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("label=x depth=0", "option 'depth': expected 1 to 1048576, found 0"),
        ("label=x shape=shape{size=10}", "option 'size': expected 2 to 8 cells, found 10"),
        ("label=x shape=shape{size=3}", "option 'size': expected a multiple of 2, found 3"),
        ("label=x shape=shpe", "option 'shape': unknown shape 'shpe'; did you mean 'shape'?"),
        ("label=x shape=a,b", "option 'shape': expected the name of a shape, found a,b"),
        ("label=x shape", "option 'shape': expected the name of a shape, found no value"),
        (
            'label=x shape="shape{"',
            "shape 'shape{': column 7: expected an option or '}', found the",
        ),
        ("label=x lid=ajar", "option 'lid': expected open or shut, found ajar"),
        ("label=x light=1", "option 'light': expected bool, found 1"),
        ("label=x sides=true", "option 'sides': expected tuple[int, ...], found true"),
        ("label=x depth=true", "option 'depth': expected int|None, found true"),
        ("labl=x", "unknown option 'labl'; did you mean 'label'?"),
        ("light=true", "expected option 'label'"),
        ("label=3", "option 'label': expected str, found 3"),
    ],
)
def test_what_an_option_may_not_be(options: str, message: str):
    with pytest.raises(OptionError) as error:
        box(f"box{{{options}}}")
    assert message in str(error.value)
    assert str(error.value).startswith("thing 'box': ")


def test_options_check_themselves_in_python():
    with pytest.raises(OptionError, match=r"option 'size': expected 2 to 8 cells, found 9"):
        replace(Shape(), size=9)
    with pytest.raises(OptionError, match=r"option 'policy': expected Policy, found 'overlap'"):
        LowerMoePass(policy="overlap")  # pyright: ignore[reportArgumentType]
    with pytest.raises(OptionError, match=r"option 'tile-m': expected int, found True"):
        LowerMoePass(tile_m=True)


def test_each_option_of_a_pass_is_an_option_of_the_pipeline():
    """Passes of the pipeline that have options: all of theirs, with the same type and default."""
    taken = {field.name: field.default for field in fields(LowerMoePass)}
    types = option_types(LowerMoePass)
    of_passes: set[str] = set()
    for module_pass in LowerMoePass().passes():
        for name, kind in option_types(type(module_pass)).items():
            of_passes.add(name)
            assert types[name] == kind
            assert taken[name] == getattr(module_pass, name)
    assert of_passes == set(types) - {"credit", "elide"}


def test_what_the_pipeline_is_given_is_what_its_passes_get():
    lowering = LowerMoePass(
        machine="ascend-a2", tile_m=16, granularity="expert", reuse=False, policy=Overlap(behind=3)
    )
    found = {p.name: p for p in lower_moe(lowering)}
    assert str(found["convert-comm-to-tile"]) == "convert-comm-to-tile{machine=ascend-a2 tile-m=16}"
    assert str(found["insert-dependencies"]) == "insert-dependencies{granularity=expert}"
    assert str(found["plan-memory"]) == "plan-memory{machine=ascend-a2 reuse=false}"
    assert (
        str(found["assign-queues"]) == "assign-queues{machine=ascend-a2 policy=overlap{behind=3}}"
    )
    assert passes_in(pipeline_text([lowering])) == (lowering,)
    assert passes_in(pipeline_text(lowering.passes())) == lowering.passes()


@pytest.mark.parametrize("machine", machine_names())
@pytest.mark.parametrize("name", NAMED)
def test_a_schedule_is_its_text(name: str, machine: str):
    passes = NAMED[name].passes(load_machine(machine))
    assert passes_in(pipeline_text(passes)) == passes


def test_only_the_schedule_of_operators_is_serial():
    machine = load_machine("ascend-a3")
    assert [name for name in NAMED if is_serial(NAMED[name].passes(machine))] == ["serial", "stock"]
    assert is_serial([AssignQueuesPass(policy=Serial())])
    assert is_serial([LowerMoePass(policy=Serial())])
    assert not is_serial([PASSES["convert-moe-to-comm"]()()])


def test_policies_are_the_modules_of_their_folder():
    found = built_in_policies()
    assert list(found) == sorted(found)
    assert {"arrival", "depth-first", "list", "overlap", "serial", "waves"} <= set(found)
    assert {name: load() for name, load in policies().items()} == found
    for name, policy in found.items():
        assert policy.name == name
        for option, values in policy.search_space().items():
            for value in values:
                assert policy.of_spec(Spec(name, {option: (value,)})) == policy(**{option: value})  # pyright: ignore[reportArgumentType]


def test_a_pass_says_which_level_it_leaves():
    left = {p.name: level_left(p) for p in expanded([LowerMoePass()])}
    assert {name: level for name, level in left.items() if level is not None} == {
        "convert-moe-to-comm": "moe",
        "convert-comm-to-tile": "comm",
        "assign-queues": "tile",
    }
