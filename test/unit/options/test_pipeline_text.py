"""The text of pipelines: what is printed reads the same, what is wrong is told with its column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.utils.arg_spec import parse_pipeline as xdsl_parse_pipeline

from hpmoe_ir.options.text import OptionSyntaxError, Spec, Value, parse_pipeline, parse_spec

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("true", "false")
)
STRINGS = st.text(
    st.characters(max_codepoint=0x2FF, exclude_categories=("Cc", "Cs"), include_characters="\n\t")
)
ATOMS = st.one_of(
    st.booleans(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    STRINGS,
)


def options(values: st.SearchStrategy[Value]) -> st.SearchStrategy[dict[str, tuple[Value, ...]]]:
    lists = st.lists(values, max_size=3).map(tuple)
    return st.dictionaries(NAMES, lists, max_size=3)


FLAT = st.builds(Spec, NAMES, options(ATOMS))
NESTED = st.builds(
    Spec,
    NAMES,
    options(st.one_of(ATOMS, st.builds(Spec, NAMES, options(ATOMS)).filter(lambda s: s.options))),
)


@given(st.lists(NESTED, max_size=3))
def test_what_is_printed_reads_the_same(specs: list[Spec]):
    assert parse_pipeline(",".join(map(str, specs))) == tuple(specs)


@given(FLAT)
def test_xdsl_reads_what_has_no_options_in_options(spec: Spec):
    """Apart from characters that only its own printer writes as it reads them."""
    plain = all(not isinstance(v, str) or v.isalnum() for vs in spec.options.values() for v in vs)
    if plain:
        (found,) = xdsl_parse_pipeline(str(spec))
        assert found == spec.arg_spec()


def test_a_pipeline_of_all_kinds_of_values():
    text = """
      a{ one = 1, -2 , +3 two="x \\"y\\"\\n" flag p=q{r=0.5 s=t{u=true}},v },
      b{1d-tile=2d-slice}
    """
    inner = Spec("q", {"r": (0.5,), "s": (Spec("t", {"u": (True,)}),)})
    assert parse_pipeline(text) == (
        Spec("a", {"one": (1, -2, 3), "two": ('x "y"\n',), "flag": (), "p": (inner, "v")}),
        Spec("b", {"1d-tile": ("2d-slice",)}),
    )


def test_options_are_spelled_with_dashes():
    assert str(parse_spec("a{one_two=three_four}")) == "a{one-two=three_four}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b", "column 3: expected '{', ',' or the end, found 'b'"),
        ("a{b}c", "column 5: expected ',' or the end, found 'c'"),
        ("a,", "column 3: expected a name, found the end"),
        (",a", "column 1: expected a name, found ','"),
        ("a{b=}", 'column 5: expected a value: a name, a number or text in quotes ("..."), found'),
        (
            "a{b=1,}",
            'column 7: expected a value: a name, a number or text in quotes ("..."), found',
        ),
        ("a{b=c{d=1}", "column 11: expected ',', an option or '}', found the end"),
        ("a{b=c{d}=1}", "column 9: expected ',', an option or '}', found '='"),
        ("a{=1}", "column 3: expected an option or '}', found '='"),
        ("a{b,c}", "column 4: expected '=', an option or '}', found ','"),
        ("a{b=1 c=2 b=3}", "column 11: expected each option once, found 'b'"),
        ("a{b_c=1 b-c=3}", "column 9: expected each option once, found 'b-c'"),
        ('a{b="c}', "column 5: expected a closing quote, found '\"'"),
        ("a{b=c/d}", "column 6: expected a name or a value, found '/'"),
        (f"a{{b={'9' * 5000}}}", "column 5: expected fewer digits, found 5000"),
        ("a{b=" * 17, "column 66: expected at most 16 levels of braces, found '{'"),
    ],
)
def test_what_is_wrong_is_told_with_its_column(text: str, message: str):
    with pytest.raises(OptionSyntaxError) as error:
        parse_pipeline(text)
    assert str(error.value).startswith(message)


def test_one_name_is_one():
    with pytest.raises(OptionSyntaxError, match=r"expected one name, found 2"):
        parse_spec("a,b")
