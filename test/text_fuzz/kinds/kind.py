"""What a kind of cases is, and what they share."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from text_fuzz.seeds import Seeds
from text_fuzz.watch import PREVIOUS, Case

Kind: TypeAlias = Callable[[Seeds, Random], Case]


def earlier(rng: Random, name: str) -> tuple[dict[str, bytes], str]:
    """Files that are there before, and the output's name."""
    return ({name: PREVIOUS} if rng.random() < 0.5 else {}), name
