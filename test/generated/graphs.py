"""Graphs at the `moe` level as plain data: steps on values, which make a function of one route."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ModuleOp, bf16, f16, f32, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.moe import RouteType

FUNCTION = "graph"


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
