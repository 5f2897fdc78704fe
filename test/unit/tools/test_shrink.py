"""`shrink`: the smallest case that still fails, within its budget."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from hpmoe_ir.run.shrink import Shrunk, shrink, smaller_numbers

Sizes = tuple[int, int]


def fewer_first(case: Sizes) -> Iterator[Sizes]:
    for n in smaller_numbers(case[0], 1):
        yield n, case[1]


def fewer_second(case: Sizes) -> Iterator[Sizes]:
    for n in smaller_numbers(case[1], 16, 16):
        yield case[0], n


def shrunk(case: Sizes, least: Sizes, budget: int = 1000) -> tuple[Shrunk[Sizes], list[Sizes]]:
    """The result, and the cases tried, where all cases of at least these sizes fail."""
    tried: list[Sizes] = []

    def fails(candidate: Sizes) -> bool:
        tried.append(candidate)
        return candidate[0] >= least[0] and candidate[1] >= least[1]

    return shrink(case, [fewer_first, fewer_second], fails, str, budget), tried


@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 50), st.integers(0, 50))
def test_the_smallest_is_found(first: int, second: int, more: int, wider: int):
    found, tried = shrunk((first + more, 16 * (second + wider)), (first, 16 * second))
    assert found.case == (first, 16 * second)
    assert found.finished
    assert found.runs == len(tried) == len(set(tried))


def test_sizes_that_depend_on_each_other():
    """Only after the second has become smaller can the first."""
    found = shrink(
        (4, 64),
        [fewer_first, fewer_second],
        lambda case: case[0] * 16 >= case[1],
        str,
        100,
    )
    assert found.case == (1, 16)


def test_the_budget_ends_it():
    found, tried = shrunk((100, 1600), (40, 640), budget=3)
    assert not found.finished
    assert found.runs == len(tried) == 3
    assert found.case >= (40, 640)


def test_smaller_numbers():
    assert smaller_numbers(64, 1) == [1, 32, 48, 63]
    assert smaller_numbers(112, 16, 16) == [16, 48, 80, 96]
    assert smaller_numbers(16, 16, 16) == []
    assert smaller_numbers(1, 0) == [0]
