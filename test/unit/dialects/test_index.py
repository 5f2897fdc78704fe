"""Index expressions against Python's own arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.ir.affine import AffineExpr
from xdsl.parser import Parser

from hpmoe_ir.dialects.index import (
    RANK,
    default_names,
    dims_used,
    evaluate_index,
    format_index,
    index_range,
    index_values,
    parse_index,
    uses_rank,
    walk_index,
)

NAMES = ("e", "g", "n")


def parse(text: str, names: Sequence[str] = NAMES) -> AffineExpr:
    parser = Parser(Context(), text)
    expr = parse_index(parser, names)
    assert parser.parse_optional_identifier() is None
    return expr


@dataclass(frozen=True)
class Sample:
    """An expression in text, with what it means in Python."""

    text: str
    value: Callable[[dict[str, int]], int]


LEAVES = (
    *(Sample(name, lambda env, n=name: env[n]) for name in (*NAMES, "rank")),
    *(Sample(str(n), lambda _, n=n: n) for n in (0, 1, 3, -2)),
)


def scaled(operand: Sample, operator: str, number: int) -> Sample:
    functions: dict[str, Callable[[int], int]] = {
        "*": lambda v: v * number,
        "mod": lambda v: v % number,
        "floordiv": lambda v: v // number,
        "ceildiv": lambda v: -(-v // number),
    }
    return Sample(
        f"({operand.text}) {operator} {number}",
        lambda env: functions[operator](operand.value(env)),
    )


def added(a: Sample, b: Sample) -> Sample:
    return Sample(f"({a.text}) + ({b.text})", lambda env: a.value(env) + b.value(env))


def samples() -> st.SearchStrategy[Sample]:
    def grow(inner: st.SearchStrategy[Sample]) -> st.SearchStrategy[Sample]:
        operators = st.sampled_from(["*", "mod", "floordiv", "ceildiv"])
        return st.builds(scaled, inner, operators, st.integers(1, 5)) | st.builds(
            added, inner, inner
        )

    return st.recursive(st.sampled_from(LEAVES), grow, max_leaves=6)


@given(samples(), st.tuples(*[st.integers(0, 7)] * 4))
def test_value_is_that_of_python(sample: Sample, at: tuple[int, int, int, int]):
    env: dict[str, int] = dict(zip((*NAMES, "rank"), at, strict=True))
    assert evaluate_index(parse(sample.text), at[:3], at[3]) == sample.value(env)


@given(samples(), st.tuples(*[st.integers(0, 7)] * 4))
def test_text_means_the_same_and_is_stable(sample: Sample, at: tuple[int, int, int, int]):
    expr = parse(sample.text)
    text = format_index(expr, NAMES)
    again = parse(text)
    assert evaluate_index(again, at[:3], at[3]) == evaluate_index(expr, at[:3], at[3])
    assert format_index(again, NAMES) == text


@given(samples())
def test_values_over_a_grid(sample: Sample):
    expr = parse(sample.text)
    values = {
        sample.value({"e": e, "g": g, "n": n, "rank": r})
        for e, g, n, r in product(range(3), range(2), range(4), range(2))
    }
    assert index_values(expr, (3, 2, 4), 2).tolist() == sorted(values)
    assert index_range(expr, (3, 2, 4), 2) == (min(values), max(values))


def test_arrays_of_points():
    e, g = (c.ravel() for c in np.indices((3, 4), dtype=np.int64))
    values = evaluate_index(parse("(rank + e * 4) mod 5 + g"), (e, g, 0), 3)
    expected = [(3 + 4 * i) % 5 + j for i in range(3) for j in range(4)]
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    ("text", "shortest"),
    [
        ("(rank + e) mod 4", "(rank + e) mod 4"),
        ("((e)) + (g * 2)", "e + g * 2"),
        ("e + (g + n)", "e + (g + n)"),
        ("(e mod 4) floordiv 2", "e mod 4 floordiv 2"),
    ],
)
def test_parentheses_where_they_are_needed(text: str, shortest: str):
    assert format_index(parse(text), NAMES) == shortest


def test_an_empty_grid_has_no_values():
    assert index_range(parse("e + 1"), (0, 2, 2), 2) == (0, -1)


def test_what_an_expression_uses():
    expr = parse("(rank + g * 2) mod 4")
    assert dims_used(expr) == {1}
    assert uses_rank(expr)
    assert not uses_rank(parse("g * 2"))
    assert RANK in list(walk_index(expr))
    assert default_names(3) == ("d0", "d1", "d2")
