"""Placement of rows and weights: the encoding attributes and the route type of the `moe` dialect.

The text of each size has its unit: `64 rows`, `64 tokens`, `4 experts over 2 ranks`.
"""

from __future__ import annotations

from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntAttr, TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

AnyTensor: TypeAlias = TensorType[Attribute]


@dataclass(frozen=True, init=False)
class RowsAttr(ParametrizedAttribute, ABC):
    """Placement of a tensor whose dimension 0 is rows, at most `rows` on each rank.

    The actual number of rows is known at run time, differs from rank to rank and may be 0.
    """

    rows: IntAttr

    def verify(self) -> None:
        if self.rows.data < 1:
            raise VerifyException(
                f"{self.name}: expected a capacity of at least 1 row, found {self.rows.data}"
            )

    def tensor(self, width: int, element_type: Attribute) -> AnyTensor:
        """Returns `tensor<?xWIDTHxTYPE, #moe.PLACEMENT<N rows>>`."""
        return TensorType(element_type, [DYNAMIC_INDEX, width], self)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rows = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("rows")
        return [IntAttr(rows)]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.rows.data} rows>")


@irdl_attr_definition
class TokensAttr(RowsAttr):
    """`#moe.tokens<64 rows>`: one row for each of this rank's tokens, in their order."""

    name = "moe.tokens"

    def __init__(self, rows: int):
        super().__init__(IntAttr(rows))


@irdl_attr_definition
class SentAttr(RowsAttr):
    """`#moe.sent<128 rows>`: one row for each (token, expert) of this rank, in send order."""

    name = "moe.sent"

    def __init__(self, rows: int):
        super().__init__(IntAttr(rows))


@irdl_attr_definition
class GroupedAttr(RowsAttr):
    """`#moe.grouped<256 rows>`: the rows for this rank's experts, in receive order."""

    name = "moe.grouped"

    def __init__(self, rows: int):
        super().__init__(IntAttr(rows))


def _check_spread(name: str, experts: int, ranks: int) -> None:
    """Checks that the number of experts is a multiple of the number of ranks."""
    if ranks < 1 or experts < 1:
        raise VerifyException(
            f"{name}: expected at least 1 expert and 1 rank, found {experts} over {ranks}"
        )
    if experts % ranks:
        raise VerifyException(
            f"{name}: expected a number of experts that is a multiple of the number of ranks, "
            f"found {experts} experts over {ranks} ranks"
        )


@irdl_attr_definition
class ExpertsAttr(ParametrizedAttribute):
    """`#moe.experts<4 over 2 ranks>`: dimension 0 is this rank's share of the experts, here 2 of 4.

    Expert x lives on rank floor(x / L), where L = experts / ranks.
    """

    name = "moe.experts"

    experts: IntAttr
    ranks: IntAttr

    def __init__(self, experts: int, ranks: int):
        super().__init__(IntAttr(experts), IntAttr(ranks))

    def verify(self) -> None:
        _check_spread(self.name, self.experts.data, self.ranks.data)

    @property
    def local_experts(self) -> int:
        """Number of experts on each rank, L."""
        return self.experts.data // self.ranks.data

    def tensor(self, shape: tuple[int, int], element_type: Attribute) -> AnyTensor:
        """Returns `tensor<LxAxBxTYPE, #moe.experts<E over R ranks>>` for weights of A by B."""
        return TensorType(element_type, [self.local_experts, *shape], self)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            experts = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("over")
            ranks = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("ranks")
        return [IntAttr(experts), IntAttr(ranks)]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(f"<{self.experts.data} over {self.ranks.data} ranks>")


@irdl_attr_definition
class RouteType(ParametrizedAttribute, TypeAttribute):
    """`!moe.route<64 tokens, top 2, 4 experts over 2 ranks, 256 rows>`: the routing of a launch.

    The value holds the number of rows from each rank to each expert, the send order, and the first
    rows in the receive buffers. The type holds the limits: at most 64 tokens on a rank, each sent
    to 2 of 4 experts, and at most 256 rows received by a rank. Exceeding this capacity at run time
    is an error on every rank.
    """

    name = "moe.route"

    tokens: IntAttr
    """Largest number of tokens of a rank."""
    top: IntAttr
    """Number of experts that each token is sent to, K."""
    experts: IntAttr
    """Number of experts of all ranks, E."""
    ranks: IntAttr
    rows: IntAttr
    """Capacity: the largest number of rows that a rank can receive."""

    def __init__(self, tokens: int, top: int, experts: int, ranks: int, rows: int | None = None):
        """Creates a route type; the capacity `rows` defaults to `lossless_rows`."""
        if rows is None:
            _check_spread(self.name, experts, ranks)
            rows = ranks * tokens * min(top, experts // ranks)
        super().__init__(*(IntAttr(n) for n in (tokens, top, experts, ranks, rows)))

    def verify(self) -> None:
        _check_spread(self.name, self.experts.data, self.ranks.data)
        if self.tokens.data < 1:
            raise VerifyException(
                f"{self.name}: expected a capacity of at least 1 token, found {self.tokens.data}"
            )
        if not 1 <= self.top.data <= self.experts.data:
            raise VerifyException(
                f"{self.name}: expected top between 1 and the number of experts, "
                f"{self.experts.data}, found {self.top.data}"
            )
        if not 1 <= self.rows.data <= self.lossless_rows:
            raise VerifyException(
                f"{self.name}: expected a capacity between 1 and {self.lossless_rows} rows, the "
                f"most that a rank can receive, found {self.rows.data}"
            )

    @property
    def local_experts(self) -> int:
        """Number of experts on each rank, L."""
        return self.experts.data // self.ranks.data

    @property
    def lossless_rows(self) -> int:
        """The largest number of rows that a rank can receive under any routing."""
        return self.ranks.data * self.tokens.data * min(self.top.data, self.local_experts)

    @property
    def token_rows(self) -> TokensAttr:
        """Placement of token rows."""
        return TokensAttr(self.tokens.data)

    @property
    def sent_rows(self) -> SentAttr:
        """Placement of sent rows."""
        return SentAttr(self.tokens.data * self.top.data)

    @property
    def grouped_rows(self) -> GroupedAttr:
        """Placement of grouped rows."""
        return GroupedAttr(self.rows.data)

    @property
    def placement(self) -> ExpertsAttr:
        """Placement of the weights."""
        return ExpertsAttr(self.experts.data, self.ranks.data)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            tokens = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("tokens")
            parser.parse_punctuation(",")
            parser.parse_keyword("top")
            top = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            experts = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("experts")
            parser.parse_keyword("over")
            ranks = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("ranks")
            parser.parse_punctuation(",")
            rows = parser.parse_integer(allow_boolean=False)
            parser.parse_keyword("rows")
        return [IntAttr(n) for n in (tokens, top, experts, ranks, rows)]

    def print_parameters(self, printer: Printer) -> None:
        printer.print_string(
            f"<{self.tokens.data} tokens, top {self.top.data}, {self.experts.data} experts over "
            f"{self.ranks.data} ranks, {self.rows.data} rows>"
        )
