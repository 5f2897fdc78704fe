"""The loss curves of `train_tiny.py` as a table and as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Ids: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 40, 48


def changed(a: Ids, b: Ids) -> int:
    """Returns the number of tokens that have other experts in `b` than in `a`."""
    return int((np.sort(a, axis=1) != np.sort(b, axis=1)).any(axis=1).sum())


def table(
    ours: Sequence[float],
    theirs: Sequence[float],
    our_routings: Sequence[Ids],
    their_routings: Sequence[Ids],
    allowed: Sequence[float],
) -> str:
    """Returns a table with a line for each step.

    `apart` is the difference relative to MindSpore's loss, `allowed` the tolerance for it. `moved`
    counts the tokens that have other experts than at step 0, `other` those that have other experts
    than in MindSpore.
    """
    lines = ["step  generated  MindSpore   apart allowed moved other"]
    ratio = 0.0
    for step, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        moved = changed(our_routings[0], our_routings[step])
        other = changed(our_routings[step], their_routings[step])
        apart = abs(a - b) / b
        ratio = max(ratio, apart / allowed[step])
        lines.append(
            f"{step:4} {a:10.6f} {b:10.6f} {apart:7.3%} {allowed[step]:7.3%} {moved:5} {other:5}"
        )
    lines.append(f"at most {ratio:.2f} of the tolerance")
    return "\n".join(lines) + "\n"


def picture(ours: Sequence[float], theirs: Sequence[float], dtype: str) -> str:
    """Returns both curves as SVG: MindSpore's as a line, the generated code's as dots."""
    top = math.ceil(10 * max(*ours, *theirs)) / 10
    last = max(1, len(ours) - 1)

    def place(step: float, loss: float) -> tuple[float, float]:
        x = LEFT + (WIDTH - LEFT - RIGHT) * step / last
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * loss / top
        return round(x, 1), round(y, 1)

    def text(x: float, y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
    ]
    (x0, y0), (x1, _) = place(0, 0), place(last, 0)
    for loss in (i / 10 for i in range(round(10 * top) + 1)):
        _, y = place(0, loss)
        parts.append(f'<path d="M{x0} {y}H{x1}" stroke="#ddd"/>')
        parts.append(text(x0 - 8, y + 4, f"{loss:.1f}", "end"))
    for step in range(0, last + 1, max(1, 10 * (last // 50 + 1))):
        parts.append(text(place(step, 0)[0], y0 + 18, str(step)))
    parts.append(text((x0 + x1) / 2, HEIGHT - 10, "step"))
    points = " ".join(f"{x},{y}" for x, y in (place(i, v) for i, v in enumerate(theirs)))
    parts.append(f'<polyline points="{points}" fill="none" stroke="#d95f02" stroke-width="2"/>')
    for i, value in enumerate(ours):
        x, y = place(i, value)
        parts.append(f'<circle cx="{x}" cy="{y}" r="2.5" fill="#1b5faa"/>')
    parts += [
        f'<path d="M{x1 - 256} 20h24" stroke="#d95f02" stroke-width="2"/>',
        text(x1 - 224, 24, "MindSpore, f32", "start"),
        f'<circle cx="{x1 - 120}" cy="20" r="2.5" fill="#1b5faa"/>',
        text(x1 - 110, 24, f"generated, {dtype}", "start"),
        text(x0, 24, "loss before each step", "start"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"
