"""Graphs at the `moe` level as plain data: steps on values, which make a function of one route."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.moe import RouteType

FUNCTION = "graph"
WIDTHS = (16, 32, 48, 64, 96)
"""Columns of rows: what the matrix core takes, also where a tile is not filled."""
MOST_STEPS = 8


@dataclass(frozen=True)
class Step:
    """One operation: its name, its operands by the number of their value, and a number of its own.

    Values 0 to `Graph.tokens` - 1 are arguments; step i makes the value behind those of the steps
    before it. `number` is the width of a product, negative where its weights are transposed, or
    `-1 - w` of `shared` for the weights w that an earlier product has.
    """

    op: str
    operands: tuple[int, ...]
    number: int = 0


@dataclass(frozen=True)
class Graph:
    """A function: widths of its token arguments, its steps, and which values it returns."""

    widths: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def count(self, op: str) -> int:
        """How many steps are this operation."""
        return sum(step.op == op for step in self.steps)


LAYER = Graph(
    (64,),
    (
        Step("dispatch", (0,)),
        Step("matmul", (1,), 64),
        Step("swiglu", (2,)),
        Step("matmul", (3,), 64),
        Step("combine", (4,)),
    ),
    (5,),
)
"""The plain expert layer, hidden 64, width 32."""


def layer_graph(hidden: int, width: int) -> Graph:
    """The plain expert layer of these sizes."""
    steps = list(LAYER.steps)
    steps[1] = Step("matmul", (1,), 2 * width)
    steps[3] = Step("matmul", (3,), hidden)
    return Graph((hidden,), tuple(steps), LAYER.results)


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


ELEMENTS: dict[str, Attribute] = {"bf16": bf16, "f16": f16}


def graph_module(graph: Graph, route: RouteType, dtype: str) -> ModuleOp:
    """The graph as a module: `@graph(x0, ..., ids, gate, w0, ...)`.

    Arguments that no step uses are there too.
    """
    element = ELEMENTS[dtype]
    rows, experts = route.token_rows, route.placement
    shapes = weight_shapes(graph)
    types: list[Attribute] = [rows.tensor(w, element) for w in graph.widths]
    types += [rows.tensor(route.top.data, i32), rows.tensor(route.top.data, f32)]
    types += [experts.tensor(shape, element) for shape in shapes]
    count = len(graph.widths)
    function = FuncOp(FUNCTION, (types, []))
    names = [*(f"x{i}" for i in range(count)), "ids", "gate"]
    names += [f"w{i}" for i in range(len(shapes))]
    for arg, name in zip(function.args, names, strict=True):
        arg.name_hint = name
    ids, gate, *weights = function.args[count:]
    routed = moe.RouteOp(ids, route)
    routed.route.name_hint = "route"
    ops: list[Operation] = [routed]
    values: list[SSAValue] = list(function.args[:count])
    fresh = iter(weights)
    for i, step in enumerate(graph.steps):
        own = [values[v] for v in step.operands]
        op = _operation(step, own, routed, gate, weights, fresh, element)
        op.results[0].name_hint = f"v{i}"
        ops.append(op)
        values.append(op.results[0])
    returned = [values[v] for v in graph.results]
    function.body.block.add_ops([*ops, ReturnOp(*returned)])
    function.update_function_type()
    module = ModuleOp([function])
    module.verify()
    return module


def _operation(
    step: Step,
    own: Sequence[SSAValue],
    route: moe.RouteOp,
    gate: SSAValue,
    weights: Sequence[SSAValue],
    fresh: Iterator[SSAValue],
    element: Attribute,
) -> Operation:
    first = own[0]
    match step.op:
        case "dispatch":
            return moe.DispatchOp(first, route)
        case "dispatch_weighted":
            return moe.DispatchWeightedOp(first, gate, route)
        case "matmul":
            return moe.GroupedMatmulOp(first, next(fresh), route, transpose_rhs=step.number < 0)
        case "shared" | "shared_t":
            transposed = step.op == "shared_t"
            return moe.GroupedMatmulOp(first, weights[step.number], route, transpose_rhs=transposed)
        case "swiglu":
            return moe.SwiGLUOp(first)
        case "swiglu_grad":
            return moe.SwiGLUGradOp(first, own[1])
        case "add":
            return moe.AddOp(first, own[1])
        case "combine":
            return moe.CombineOp(first, gate, route)
        case "collect":
            return moe.CollectOp(first, route)
        case "weighted_sum":
            return moe.WeightedSumOp(first, gate, route)
        case "sum_copies":
            return moe.SumCopiesOp(first, route)
        case "gate_gradient":
            return moe.GateGradientOp(first, own[1], route)
        case "weight_gradient":
            return moe.GroupedMatmulOp(
                first,
                own[1],
                route,
                transpose_lhs=True,
                element_type=f32 if step.number else element,
            )
        case _:
            raise AssertionError(f"no step {step.op}")


def weight_shapes(graph: Graph) -> list[tuple[int, int]]:
    """Rows and columns of each weight argument, in order."""
    widths = value_widths(graph)
    return [
        (-step.number, widths[step.operands[0]])
        if step.number < 0
        else (widths[step.operands[0]], step.number)
        for step in graph.steps
        if step.op == "matmul"
    ]


def value_widths(graph: Graph) -> list[int]:
    """Columns of each value; 0 for gradients of weights and gates."""
    widths = list(graph.widths)
    shapes: list[tuple[int, int]] = []
    for step in graph.steps:
        width = widths[step.operands[0]]
        match step.op:
            case "matmul":
                columns = abs(step.number)
                shapes.append((columns, width) if step.number < 0 else (width, columns))
                widths.append(columns)
            case "shared":
                widths.append(shapes[step.number][1])
            case "shared_t":
                widths.append(shapes[step.number][0])
            case "swiglu":
                widths.append(width // 2)
            case "gate_gradient" | "weight_gradient":
                widths.append(0)
            case _:
                widths.append(width)
    return widths
