"""Hypothesis strategies for graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from generated.graphs import Graph, Step, layer_graph

WIDTHS = (16, 32, 48, 64, 96)
"""Columns of rows: what the matrix core takes, also where a tile is not filled."""
MOST_STEPS = 8


@dataclass(frozen=True)
class _Kind:
    """What a value is: rows of tokens, of experts, in send order, or something only returned."""

    rows: str
    width: int


@dataclass
class _Drawn:
    """A graph while it is drawn."""

    draw: st.DrawFn
    kinds: list[_Kind]
    steps: list[Step] = field(default_factory=list[Step])
    weights: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    used: set[int] = field(default_factory=set[int])

    def of(self, rows: str, fits: Callable[[_Kind], bool] = lambda _: True) -> list[int]:
        """Numbers of the values that are such rows, the latest first."""
        found = [i for i, k in enumerate(self.kinds) if k.rows == rows and fits(k)]
        return found[::-1]

    def one(self, values: Sequence[int]) -> int:
        """One of some values; shrinks to the first."""
        return self.draw(st.sampled_from(list(values)))

    def add(self, op: str, operands: tuple[int, ...], kind: _Kind, number: int = 0) -> None:
        """Adds a step that makes a value."""
        self.steps.append(Step(op, operands, number))
        self.used.update(operands)
        self.kinds.append(kind)

    def possible(self) -> list[str]:
        """Names of the operations that have operands."""
        grouped, tokens, sent = self.of("grouped"), self.of("tokens"), self.of("sent")
        found: list[str] = []
        if grouped:
            found += ["matmul", "combine", "swiglu", "add", "collect", "weight_gradient"]
        if any(self.halves(g) for g in grouped):
            found.append("swiglu_grad")
        if not self.of("grouped", lambda k: k.width % 32 == 0) and "swiglu" in found:
            found.remove("swiglu")
        if sent:
            found += ["weighted_sum", "sum_copies"]
        if any(self.of("tokens", lambda k, s=s: k.width == self.kinds[s].width) for s in sent):
            found.append("gate_gradient")
        if tokens:
            found += ["dispatch", "dispatch_weighted", "add_tokens"]
        return found

    def halves(self, value: int) -> list[int]:
        """Grouped rows of half the width of `value`."""
        return self.of("grouped", lambda k: 2 * k.width == self.kinds[value].width)

    def step(self, op: str) -> None:
        """Draws one step."""
        kinds = self.kinds
        match op:
            case "dispatch" | "dispatch_weighted":
                x = self.one(self.of("tokens"))
                self.add(op, (x,), _Kind("grouped", kinds[x].width))
            case "matmul":
                self.matmul()
            case "swiglu":
                h = self.one(self.of("grouped", lambda k: k.width % 32 == 0))
                self.add(op, (h,), _Kind("grouped", kinds[h].width // 2))
            case "swiglu_grad":
                h = self.one([g for g in self.of("grouped") if self.halves(g)])
                da = self.one(self.halves(h))
                self.add(op, (h, da), kinds[h])
            case "add" | "add_tokens":
                rows = "grouped" if op == "add" else "tokens"
                a = self.one(self.of(rows))
                b = self.one(self.of(rows, lambda k: k == kinds[a]))
                self.add("add", (a, b), kinds[a])
            case "combine" | "collect":
                y = self.one(self.of("grouped"))
                rows = "tokens" if op == "combine" else "sent"
                self.add(op, (y,), _Kind(rows, kinds[y].width))
            case "weighted_sum" | "sum_copies":
                back = self.one(self.of("sent"))
                self.add(op, (back,), _Kind("tokens", kinds[back].width))
            case "gate_gradient":
                fits = [
                    s
                    for s in self.of("sent")
                    if self.of("tokens", lambda k, s=s: k.width == kinds[s].width)
                ]
                back = self.one(fits)
                dout = self.one(self.of("tokens", lambda k: k.width == kinds[back].width))
                self.add(op, (back, dout), _Kind("gate", 0))
            case _:
                a, b = self.one(self.of("grouped")), self.one(self.of("grouped"))
                self.add(op, (a, b), _Kind("weights", 0), self.draw(st.integers(0, 1)))

    def matmul(self) -> None:
        """A product with weights of its own, or with those of an earlier product."""
        a = self.one(self.of("grouped"))
        width = self.kinds[a].width
        fits = [
            (w, t)
            for w, shape in enumerate(self.weights)
            for t in (0, 1)
            if shape[t] == width  # transposed: rows times [N, K] by the second
        ]
        if fits and self.draw(st.integers(0, 3)) == 0:
            w, t = self.draw(st.sampled_from(fits))
            self.add(f"shared{'_t' * t}", (a,), _Kind("grouped", self.weights[w][1 - t]), w)
            return
        columns = self.draw(st.sampled_from(WIDTHS))
        transposed = self.draw(st.booleans())
        self.weights.append((columns, width) if transposed else (width, columns))
        number = -columns if transposed else columns
        self.add("matmul", (a,), _Kind("grouped", columns), number)

    def graph(self) -> Graph:
        """What was drawn; what no step uses is returned, and sometimes a value that one does."""
        arguments = len(self.kinds) - len(self.steps)
        made = range(arguments, len(self.kinds))
        results = [v for v in made if v not in self.used]
        # Rows in send order have no gradient: often nobody reads them.
        others = [v for v in results if self.kinds[v].rows != "sent"]
        if others and self.draw(st.booleans()):
            results = others
        more = [v for v in made if v in self.used]
        if more and self.draw(st.integers(0, 3)) == 0:
            results.append(self.one(more))
        return Graph(
            tuple(k.width for k in self.kinds[:arguments]), tuple(self.steps), tuple(results)
        )


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Graphs of one route whose operations fit each other; the first is a dispatch."""
    widths = draw(st.lists(st.sampled_from(WIDTHS), min_size=1, max_size=2))
    drawn = _Drawn(draw, [_Kind("tokens", w) for w in widths])
    drawn.step(draw(st.sampled_from(["dispatch", "dispatch_weighted"])))
    for _ in range(draw(st.integers(0, MOST_STEPS - 1))):
        drawn.step(draw(st.sampled_from(drawn.possible())))
    return drawn.graph()


@st.composite
def layer_graphs(draw: st.DrawFn) -> Graph:
    """Plain expert layers of small sizes."""
    hidden = draw(st.sampled_from(WIDTHS))
    return layer_graph(hidden, draw(st.sampled_from((16, 32, 48, 64))))
