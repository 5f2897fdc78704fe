"""Generated layers whose operators come from inside and outside, as text."""

from __future__ import annotations

import random

GRAPHS = 20

DIFFERENTIABLE = ("scale", "squared_relu", "add")
"""Operations with a gradient rule; graphs of even numbers have no others."""

ANY = ("scale", "squared_relu", "add", "mul", "relu", "gelu", "softcap", "square", "rms_norm")
EVERYWHERE = (*ANY, "softmax", "clamp")

SHAPE = """!route = !moe.route<16 tokens, top {top}, {experts} experts over 2 ranks, {rows} rows>
!x = tensor<?x{hidden}x{dtype}, #moe.tokens<16 rows>>
!ids = tensor<?x{top}xi32, #moe.tokens<16 rows>>
!gate = tensor<?x{top}xf32, #moe.tokens<16 rows>>
!rows = tensor<?x{hidden}x{dtype}, #moe.grouped<{rows} rows>>
!h = tensor<?x{double}x{dtype}, #moe.grouped<{rows} rows>>
!a = tensor<?x{width}x{dtype}, #moe.grouped<{rows} rows>>
!sent = tensor<?x{hidden}x{dtype}, #moe.sent<{sent} rows>>
!w13 = tensor<{local}x{hidden}x{double}x{dtype}, #moe.experts<{experts} over 2 ranks>>
!w2 = tensor<{local}x{width}x{hidden}x{dtype}, #moe.experts<{experts} over 2 ranks>>

func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {{
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
{body}  func.return %out : !x
}}
"""


class _Body:
    """Lines of a function's body; each operation gets a name of its own."""

    def __init__(self, rng: random.Random, names: tuple[str, ...]) -> None:
        self.rng = rng
        self.names = names
        self.lines: list[str] = []
        self.outside = 0

    def add(self, text: str) -> str:
        """Adds `%n = text` and returns %n."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}\n")
        return name

    def some(self, value: str, type: str, most: int) -> str:
        """Adds up to `most` operations behind `value`, and returns the last result."""
        for _ in range(self.rng.randint(0, most)):
            value = self.one(value, type, self.rng.choice(self.names))
        return value

    def one(self, value: str, type: str, name: str) -> str:
        """Adds one operation."""
        self.outside += name != "add"
        match name:
            case "add":
                other = self.add(f"outside.scale {value} by 4 : {type}")
                return self.add(f"moe.add {value}, {other} : {type}")
            case "mul":
                other = self.add(f"outside.softcap {value} : {type}")
                return self.add(f"outside.mul {value}, {other} : {type}")
            case "scale":
                divisor = self.rng.choice((2, 3, 10, 64))
                return self.add(f"outside.scale {value} by {divisor} : {type}")
            case "clamp":
                return self.add(f"clamp.clamp {value} to 1 : {type}")
            case _:
                return self.add(f"outside.{name} {value} : {type}")


def graph_text(number: int) -> str:
    """Returns graph `number`: a layer with at least one operator from outside."""
    rng = random.Random(number)
    body = _Body(rng, DIFFERENTIABLE if has_gradients(number) else EVERYWHERE)
    value = body.some("%recv", "!rows", 1)
    value = body.add(f"moe.grouped_matmul {value}, %w13 by %route : !rows, !w13, !route -> !h")
    value = body.some(value, "!h", 2)
    value = body.add(f"moe.swiglu {value} : !h -> !a")
    value = body.some(value, "!a", 2)
    if not body.outside:
        value = body.one(value, "!a", rng.choice([n for n in body.names if n != "add"]))
    value = body.add(f"moe.grouped_matmul {value}, %w2 by %route : !a, !w2, !route -> !rows")
    value = body.some(value, "!rows", 1)
    if rng.random() < 0.5:
        value = body.add(f"moe.collect {value} by %route : !rows, !route -> !sent")
        last = f"moe.weighted_sum {value}, %gate by %route : !sent, !gate, !route -> !x"
    else:
        last = f"moe.combine {value}, %gate by %route : !rows, !gate, !route -> !x"
    lines = "".join(body.lines) + f"  %out = {last}\n"
    return layer_text(
        lines,
        experts=rng.choice((4, 6)),
        top=rng.choice((1, 2, 3)),
        width=rng.choice((16, 32)),
        hidden=rng.choice((32, 48, 64)),
        dtype=rng.choice(("bf16", "f16")),
    )


def layer_text(
    body: str,
    *,
    experts: int = 6,
    top: int = 2,
    width: int = 16,
    hidden: int = 64,
    dtype: str = "bf16",
) -> str:
    """Returns a layer with the lines `body` between its dispatch and its return of %out."""
    return SHAPE.format(
        body=body,
        top=top,
        experts=experts,
        local=experts // 2,
        rows=32 * min(top, experts // 2),
        sent=16 * top,
        hidden=hidden,
        width=width,
        double=2 * width,
        dtype=dtype,
    )


def has_gradients(number: int) -> bool:
    """Returns whether all operations of a graph have a gradient rule."""
    return number % 2 == 0
