"""The one-sided communication level: puts into symmetric memory, and waits for their arrival.

A window is symmetric memory: every rank has one of the same name and size, and peers write into
it. A put writes rows into the windows of all peers and yields a token; waiting for the token means
waiting until all ranks' puts into this rank's window have arrived. Compute stays in the `moe`
dialect. One launch of a layer, forward (types left out):

```
%counts = comm.window "counts" per_launch
%own = comm.count_tokens %ids
%exchanged = comm.exchange %own into %counts
%all = comm.wait %counts after %exchanged
%route = comm.route %ids, %all
%recv_window = comm.window "recv"
%sent = comm.put dispatch %x into %recv_window by %route
%recv = comm.wait %recv_window after %sent
...
%back_window = comm.window "back"
%returned = comm.put return %y into %back_window by %route
%back = comm.wait %back_window after %returned
%out = moe.weighted_sum %back, %gate by %route
```

Launches follow each other without a barrier between ranks, so a peer may already be in its next
launch. The wait for the counts of all ranks proves that all ranks have finished the previous
launch: a window that is written after that wait needs one copy, the counts' window needs two.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import StringAttr, TensorType, UnitAttr, i32
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    IRDLOperation,
    ParamAttrConstraint,
    VarConstraint,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import MemoryAllocEffect, MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from hpmoe_ir.dialects.moe.checks import (
    check_gate,
    check_rows,
    check_type,
    route_type,
    tensor_type,
)
from hpmoe_ir.dialects.placement import AnyTensor, RouteType, TokensAttr


class Direction(StrEnum):
    """Direction of a put: to the ranks of the experts, or back to the ranks of the tokens."""

    DISPATCH = "dispatch"
    RETURN = "return"


@irdl_attr_definition
class DirectionAttr(EnumAttribute[Direction], SpacedOpaqueSyntaxAttribute):
    """Direction of a put: `dispatch` or `return`."""

    name = "comm.direction"


@irdl_attr_definition
class TokenType(ParametrizedAttribute, TypeAttribute):
    """`!comm.token`: the puts of all ranks into one window, in one launch."""

    name = "comm.token"


@irdl_attr_definition
class WindowType(ParametrizedAttribute, TypeAttribute):
    """`!comm.window<tensor<2x2x4xi32>>`: symmetric memory that holds such a tensor."""

    name = "comm.window"

    content: AnyTensor

    def __init__(self, content: AnyTensor):
        super().__init__(content)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return [parser.parse_type()]

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.content)


def window_content(value: SSAValue | Operation) -> AnyTensor:
    """Returns the type of the tensor that a window holds."""
    type = SSAValue.get(value).type
    assert isinstance(type, WindowType), f"expected a window, found {type}"
    return type.content


def counts_type(route: RouteType) -> AnyTensor:
    """Returns `[2, E]` i32: rows that a rank sends to each expert, and the exclusive prefix sum."""
    return TensorType(i32, [2, route.experts.data])


def all_counts_type(route: RouteType) -> AnyTensor:
    """Returns `[R, 2, E]` i32: the counts of all ranks, by source rank."""
    return TensorType(i32, [route.ranks.data, 2, route.experts.data])


@irdl_op_definition
class WindowOp(IRDLOperation):
    """A buffer of symmetric memory into which peers write; it has the same size on every rank.

    With `per_launch` there are two copies that consecutive launches alternate between, so that a
    peer which is one launch ahead doesn't overwrite what this rank still reads.

    ```
    %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>
    ```
    """

    name = "comm.window"

    buffer = prop_def(StringAttr)
    """Name of the window, unique in the function."""
    per_launch = opt_prop_def(UnitAttr)
    """Two copies, used in turn."""
    window = result_def(WindowType)

    traits = traits_def(MemoryAllocEffect())

    assembly_format = "$buffer (`per_launch` $per_launch^)? attr-dict `:` type($window)"

    def __init__(self, buffer: str, content: AnyTensor, *, per_launch: bool = False):
        super().__init__(
            properties={
                "buffer": StringAttr(buffer),
                "per_launch": UnitAttr() if per_launch else None,
            },
            result_types=[WindowType(content)],
        )

    def verify_(self) -> None:
        block = self.parent
        if block is None:
            return
        for op in block.ops:
            if op is self:
                return
            if isinstance(op, WindowOp) and op.buffer == self.buffer:
                raise VerifyException(
                    f"expected a name that no other window has, found {self.buffer} again"
                )


@irdl_op_definition
class CountTokensOp(IRDLOperation):
    """Counts the rows that this rank sends to each expert.

    Row 0 of the result is the number of rows for each of the E experts, row 1 its exclusive prefix
    sum: the first row of each expert in this rank's send order.

    ```
    %own = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<64 rows>> -> tensor<2x4xi32>
    ```
    """

    name = "comm.count_tokens"

    ids = operand_def(TensorType)
    """Ids of the experts, `[tokens, K]`, in token order."""
    counts = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = "$ids attr-dict `:` type($ids) `->` type($counts)"

    def __init__(self, ids: SSAValue | Operation, route: RouteType):
        super().__init__(operands=[ids], result_types=[counts_type(route)])

    def verify_(self) -> None:
        _check_ids(tensor_type(self.ids))
        counts = tensor_type(self.counts)
        shape = counts.get_shape()
        if len(shape) != 2 or shape[0] != 2 or shape[1] < 1 or counts.element_type != i32:
            raise VerifyException(f"counts: expected tensor<2xExi32>, found {counts}")


def _check_ids(ids: AnyTensor) -> None:
    """Checks that the ids are i32 with one row per token."""
    if not isinstance(ids.encoding, TokensAttr) or ids.element_type != i32:
        raise VerifyException(f"ids: expected tensor<?xKxi32, #moe.tokens<T rows>>, found {ids}")
    check_rows("ids", ids, ids.encoding)


@irdl_op_definition
class ExchangeOp(IRDLOperation):
    """Writes this rank's counts into its slot of every rank's window, its own included.

    ```
    %exchanged = comm.exchange %own into %counts
        : tensor<2x4xi32>, !comm.window<tensor<2x2x4xi32>>
    ```
    """

    name = "comm.exchange"

    counts = operand_def(TensorType)
    window = operand_def(WindowType)
    """Slot r of dimension 0 is written by rank r."""
    token = result_def(TokenType)

    traits = traits_def(MemoryWriteEffect())

    assembly_format = "$counts `into` $window attr-dict `:` type($counts) `,` type($window)"

    def __init__(self, counts: SSAValue | Operation, window: SSAValue | Operation):
        super().__init__(operands=[counts, window], result_types=[TokenType()])

    def verify_(self) -> None:
        counts, content = tensor_type(self.counts), window_content(self.window)
        shape = content.get_shape()
        if (
            len(shape) != 3
            or shape[1:] != counts.get_shape()
            or content.element_type != counts.element_type
        ):
            sizes = "x".join(str(size) for size in counts.get_shape())
            raise VerifyException(
                f"window: expected a slot of {sizes}x{counts.element_type} for each rank, "
                f"!comm.window<tensor<Rx{sizes}x{counts.element_type}>>, found {self.window.type}"
            )


@irdl_op_definition
class RouteOp(IRDLOperation):
    """Builds a route from this rank's ids and the counts of all ranks.

    ```
    %route = comm.route %ids, %all : tensor<?x2xi32, #moe.tokens<64 rows>>, tensor<2x2x4xi32>
        -> !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
    ```
    """

    name = "comm.route"

    ids = operand_def(TensorType)
    all_counts = operand_def(TensorType)
    """`[R, 2, E]`: the counts of each rank."""
    route = result_def(RouteType)

    traits = traits_def(Pure())

    assembly_format = (
        "$ids `,` $all_counts attr-dict `:` type($ids) `,` type($all_counts) `->` type($route)"
    )

    def __init__(
        self, ids: SSAValue | Operation, all_counts: SSAValue | Operation, route: RouteType
    ):
        super().__init__(operands=[ids, all_counts], result_types=[route])

    def verify_(self) -> None:
        route = route_type(self.route)
        check_type("ids", self.ids.type, route.token_rows.tensor(route.top.data, i32))
        check_type("all_counts", self.all_counts.type, all_counts_type(route))


@irdl_op_definition
class PutOp(IRDLOperation):
    """Writes rows into the windows of their destination ranks.

    `dispatch` writes this rank's token rows into the receive buffers of their experts' ranks,
    `return` writes the rows of this rank's experts back to the ranks that sent them. `weighted`
    multiplies each dispatched row by its router weight, in f32, or f64 for f64.

    ```
    %sent = comm.put dispatch %x into %recv by %route : tensor<?x64xbf16, #moe.tokens<64 rows>>,
        !comm.window<tensor<?x64xbf16, #moe.grouped<256 rows>>>,
        !moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>
    %sent = comm.put dispatch %dout weighted %gate into %dy by %route : ..., ..., ...,
        tensor<?x2xf32, #moe.tokens<64 rows>>
    ```
    """

    name = "comm.put"

    direction = prop_def(DirectionAttr)
    x = operand_def(TensorType)
    """`dispatch`: one row per token; `return`: rows in receive order."""
    window = operand_def(WindowType)
    """`dispatch`: rows in receive order; `return`: rows in send order."""
    route = operand_def(RouteType)
    gate = opt_operand_def(TensorType)
    """With `dispatch`: router weights `[tokens, K]`, in the order of the ids."""
    token = result_def(TokenType)

    traits = traits_def(MemoryWriteEffect())

    assembly_format = (
        "$direction $x (`weighted` $gate^)? `into` $window `by` $route attr-dict "
        "`:` type($x) `,` type($window) `,` type($route) (`,` type($gate)^)?"
    )

    def __init__(
        self,
        direction: Direction,
        x: SSAValue | Operation,
        window: SSAValue | Operation,
        route: SSAValue | Operation,
        gate: SSAValue | Operation | None = None,
    ):
        super().__init__(
            operands=[x, window, route, gate],
            properties={"direction": DirectionAttr(direction)},
            result_types=[TokenType()],
        )

    def verify_(self) -> None:
        x, route = tensor_type(self.x), route_type(self.route)
        if self.direction.data is Direction.DISPATCH:
            source, target = route.token_rows, route.grouped_rows
        else:
            source, target = route.grouped_rows, route.sent_rows
            if self.gate is not None:
                raise VerifyException("expected weighted only with dispatch, found it with return")
        width = check_rows("x", x, source)
        if self.gate is not None:
            check_gate("gate", self.gate.type, route, x)
        check_type("window", self.window.type, WindowType(target.tensor(width, x.element_type)))


@irdl_op_definition
class WaitOp(IRDLOperation):
    """The content of this rank's window once the puts of all ranks into it have arrived.

    ```
    %all = comm.wait %counts after %exchanged : !comm.window<tensor<2x2x4xi32>>
    ```
    """

    name = "comm.wait"

    T: ClassVar = VarConstraint("T", base(TensorType))

    window = operand_def(ParamAttrConstraint(WindowType, (T,)))
    token = operand_def(TokenType)
    """Token of the put or the exchange into this window."""
    content = result_def(T)

    traits = traits_def(MemoryReadEffect())

    assembly_format = "$window `after` $token attr-dict `:` type($window)"

    def __init__(self, window: SSAValue | Operation, token: SSAValue | Operation):
        super().__init__(operands=[window, token], result_types=[window_content(window)])

    def verify_(self) -> None:
        put = self.token.owner
        if isinstance(put, PutOp | ExchangeOp) and put.window is not self.window:
            raise VerifyException(
                "token: expected a put into the window that is waited for, found one into another"
            )


Comm = Dialect(
    "comm",
    [WindowOp, CountTokensOp, ExchangeOp, RouteOp, PutOp, WaitOp],
    [TokenType, WindowType, DirectionAttr],
)
