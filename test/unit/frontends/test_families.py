"""The entries of the families: each field has one meaning, each model one family."""

import json
from collections import Counter
from itertools import product
from pathlib import Path

import pytest

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.config_file import config_layer
from hpmoe_ir.frontends.families.common import COMMON_NOTES, COMMON_RULES, OUTSIDE
from hpmoe_ir.frontends.families.family import CapacityRule, Family, Note, Rule, Size
from hpmoe_ir.frontends.families.hugging_face import FAMILIES, families_with, family_of

MIXTRAL = {
    "model_type": "mixtral",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


def meanings(family: Family) -> Counter[str]:
    """How many meanings each field has for a family."""
    common = [
        *(rule.field for rule in COMMON_RULES if rule.field not in [r.field for r in family.rules]),
        *(note.field for note in COMMON_NOTES),
    ]
    own = [rule.field for rule in family.rules] + [note.field for note in family.notes]
    return Counter([*common, *own, *family.size_fields, *{*OUTSIDE, *family.outside}])


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_field_has_one_meaning(family: Family):
    assert [field for field, count in meanings(family).items() if count > 1] == []


def test_a_field_of_two_meanings_is_seen():
    family = Family("twice", "", experts=("n",), rules=(Rule("n", "", ()),), outside=("n",))
    assert meanings(family)["n"] == 3


def test_each_model_has_one_family():
    names = Counter(name for family in FAMILIES for name in (family.name, *family.model_types))
    assert [name for name, count in names.items() if count > 1] == []
    classes = Counter(name for family in FAMILIES for name in family.architectures)
    assert [name for name, count in classes.items() if count > 1] == []


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_families_are_found_by_their_names(family: Family):
    assert family_of(family.name) is family
    for name in family.architectures:
        for end in ("", "ForCausalLM", "ForConditionalGeneration", "Model", "ModelForCausalLM"):
            assert family in families_with(name + end)
    if not family.refusal:
        assert all(family.spellings(size) for size in Size)


@pytest.mark.parametrize("rule", COMMON_RULES, ids=lambda rule: rule.field)
def test_what_a_model_assumes_is_its_neutral_value(rule: Rule):
    assert rule.accepts(rule.default, 8)
    assert not rule.accepts("something", 8)
    assert not rule.accepts(0.5, 8)


@pytest.mark.parametrize(
    "value, accepted",
    [
        (None, True),
        (0, True),
        (-1.0, True),
        (8, True),
        (8.5, True),
        (7.9, False),
        (1, False),
        (True, False),
        (False, False),
        ("8", False),
        ([8], False),
    ],
)
def test_a_capacity_must_hold_all_tokens(value: object, accepted: bool):
    assert CapacityRule("f", "", (None,)).accepts(value, 8) is accepted


@pytest.mark.parametrize(
    "value, applies",
    [(None, False), (0, False), (1, True), ([], False), ([0, 0], False), ([0, 1], True)],
)
def test_notes_of_parts_that_are_not_there_are_left_out(value: object, applies: bool):
    assert Note("f", "part", (None, 0)).applies(value) is applies


def test_made_up_fields_about_experts_are_refused_by_name(tmp_path: Path):
    path = tmp_path / "config.json"
    first = ("expert", "experts", "moe", "ffn", "mlp", "gate", "router", "routed", "swiglu", "w1")
    second = ("scale", "gain", "bias", "norm", "act", "clip", "shift", "power", "drop", "width")
    # router_bias is a field of LongCat, about the router.
    for field in {"_".join(words) for words in product(first, second)} - {"router_bias"}:
        path.write_text(json.dumps(MIXTRAL | {field: 2}))
        with pytest.raises(InputError) as e:
            config_layer(path)
        assert e.value.message.startswith(f"{field}: expected ") or e.value.message.startswith(
            f"{field}: unknown field of the family mixtral, found 2; "
        )
