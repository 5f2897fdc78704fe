"""Line breaks of generated C++ statements, matching clang-format's Google style.

A statement that is longer than a line is parsed into calls, lists and chains of operators. Each
possible line break has a penalty, and the layout with the smallest sum is chosen. Penalties and
indentation follow clang-format for the statements that are generated here, so that formatting
generated code with clang-format does not change it. Only readability depends on this module.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

COLUMNS = 100
INDENT = 4

_AFTER_EQUALS = 2
_AFTER_OPENING = 19
_AFTER_COMMA = 1
_FIRST_BREAK = 15
"""Penalty for the first line break of a list or chain."""
_OVERFLOW = 1_000_000
"""Penalty for each column beyond the line limit."""

_NO_LIMIT = 1 << 62

_UNBROKEN = 60
"""Largest width of a call with one name as argument that is never broken."""

_PRECEDENCE = {"?": 3, ":": 3, "&&": 5, "!=": 9, "+": 13, "-": 13, "*": 14, "/": 14, "%": 14}
_TOKEN = re.compile(r"<[^<>()]*>|[({]|[)}]|, | (?P<operator>\?|:|&&|!=|[-+*/%]) ")


@dataclass(frozen=True)
class _Group:
    """`head(a, b)tail` or `head{a, b}tail`, with at least one item."""

    text: str
    head: str
    """Text up to and including the opening bracket."""
    items: tuple[_Node, ...]
    tail: str
    """Text from the closing bracket on."""


@dataclass(frozen=True)
class _Chain:
    """Operands with operators of one precedence between them."""

    text: str
    operands: tuple[_Node, ...]
    operators: tuple[str, ...]


_Node: TypeAlias = str | _Group | _Chain


@dataclass(frozen=True)
class _Layout:
    penalty: int
    lines: tuple[str, ...]
    """Lines of the layout; the first excludes preceding text of its line."""


def statement(line: str, indent: int) -> str:
    """Returns a statement indented by `indent` columns, broken into lines where needed."""
    if indent + len(line) <= COLUMNS or line.startswith("//"):
        return " " * indent + line
    return _statement(line, indent)


@lru_cache(maxsize=4096)
def _statement(line: str, indent: int) -> str:
    end = len(line.rstrip(";"))
    head, equals, value = line[:end].partition(" = ")
    tail = line[end:]
    if not equals:
        lines = _best(_parse(head), indent, indent, len(tail)).lines
    else:
        node, start = _parse(value), indent + len(head) + len(equals)
        below = _best(node, indent + INDENT, indent + INDENT, len(tail))
        lines = (f"{head} =", " " * (indent + INDENT) + below.lines[0], *below.lines[1:])
        limit = below.penalty + 20 + _AFTER_EQUALS + _FIRST_BREAK + 1
        beside = _node(node, start, indent, len(tail), 1, 0, limit)
        if beside is not None:
            lines = (head + equals + beside.lines[0], *beside.lines[1:])
    return "\n".join([" " * indent + lines[0], *lines[1:]]) + tail


def _best(node: _Node, start: int, base: int, tail: int) -> _Layout:
    """Returns the best layout of a node outside all brackets."""
    layout = _node(node, start, base, tail, 1, 0, _NO_LIMIT)
    assert layout is not None
    return layout


def _node(
    node: _Node, start: int, base: int, tail: int, strength: int, extra: int, limit: int
) -> _Layout | None:
    """Returns the best layout of a node whose first character is in column `start`.

    A line after an opening bracket is indented by four columns more than `base`. `tail` columns
    follow the node on its last line. `strength` is one more than the number of enclosing brackets,
    `extra` is added to the indentation of operands. None if the penalty is not below `limit`.
    """
    over = start + len(_text(node)) + tail - COLUMNS
    if over <= 0 or isinstance(node, str):
        penalty = max(over, 0) * _OVERFLOW
        return _Layout(penalty, (_text(node),)) if penalty < limit else None
    if isinstance(node, _Chain):
        costs = [20 * strength + _PRECEDENCE[o] for o in node.operators]
        joints = [f" {o}" for o in node.operators]
        indent = start + extra
        return _sequence(node.operands, joints, costs, start, indent, tail, strength, limit)
    strength += 1
    if limit <= 20 * strength + _AFTER_COMMA + _FIRST_BREAK:
        return None
    joints = [","] * (len(node.items) - 1)
    costs = [20 * strength + _AFTER_COMMA] * len(joints)
    tail += len(node.tail)
    best = None
    column, opening = base + INDENT, 20 * strength + _AFTER_OPENING + _FIRST_BREAK
    below = _sequence(
        node.items, joints, costs, column, column, tail, strength, limit - opening, broken=True
    )
    if below is not None:
        lines = (node.head, " " * column + below.lines[0], *below.lines[1:])
        best = _Layout(opening + below.penalty, lines)
        limit = best.penalty + 1
    column = start + len(node.head)
    beside = _sequence(node.items, joints, costs, column, column, tail, strength, limit)
    if beside is not None:
        lines = (node.head + beside.lines[0], *beside.lines[1:])
        best = _Layout(beside.penalty, lines)
    if best is None:
        return None
    return _Layout(best.penalty, (*best.lines[:-1], best.lines[-1] + node.tail))


def _text(node: _Node) -> str:
    return node if isinstance(node, str) else node.text


@dataclass(frozen=True, slots=True)
class _Placed:
    """The best layout of the first items of a sequence, for one end column."""

    penalty: int
    column: int
    """Column after the last character."""
    broken: bool
    """Whether there is a break between items."""
    newline: bool
    """Whether the last item begins a line."""
    lines: tuple[str, ...]
    """Lines of the last item. If there are several, the next item must begin a line."""
    before: _Placed | None


def _sequence(
    items: Sequence[_Node],
    joints: Sequence[str],
    costs: Sequence[int],
    start: int,
    indent: int,
    tail: int,
    strength: int,
    limit: int,
    *,
    broken: bool = False,
) -> _Layout | None:
    """Returns the best layout of items, where a line may end at the joint after each but the last.

    Of equal penalties, the layout with later breaks is chosen. None if the penalty is not below
    `limit`.
    """
    if limit <= 0:
        return None
    extra = 0 if len(items) == 1 else INDENT  # The operands of an only item are aligned.
    ends = [len(joint) for joint in joints] + [tail]
    widths = [len(_text(item)) + end for item, end in zip(items, ends, strict=True)]
    first = _node(items[0], start, start, ends[0], strength, extra, limit)
    if first is None:
        return None
    placed = [_placed(first, start, 0, broken, False, None)]
    for i, item in enumerate(items[1:], 1):
        rest = sum(widths[i:]) + len(items) - 1 - i
        found: dict[tuple[int, bool, bool], _Placed] = {}
        for before in placed:
            beside = before.column + ends[i - 1] + 1
            below = before.penalty + costs[i - 1] + (0 if before.broken else _FIRST_BREAK)
            ways: list[tuple[int, int, bool, bool]] = []
            # An item that fits its own line is not broken after another item, nor is a chain.
            single = len(before.lines) == 1
            if single and (
                beside + widths[i] <= COLUMNS
                or (indent + widths[i] > COLUMNS and not isinstance(item, _Chain))
            ):
                ways.append((before.penalty, beside, before.broken, False))
            if not single or beside + rest > COLUMNS:
                ways.append((below, indent, True, True))
            for penalty, column, is_broken, newline in ways:
                layout = _node(item, column, column, ends[i], strength, extra, limit - penalty)
                if layout is None:
                    continue
                new = _placed(layout, column, penalty, is_broken, newline, before)
                key = (new.column, len(new.lines) > 1, is_broken)
                if key not in found or new.penalty < found[key].penalty:
                    found[key] = new
        placed = list(found.values())
    if not placed:
        return None
    best = min(placed, key=lambda p: p.penalty)
    return _Layout(best.penalty, _lines(best, joints, indent))


def _placed(
    layout: _Layout,
    column: int,
    penalty: int,
    broken: bool,
    newline: bool,
    before: _Placed | None,
) -> _Placed:
    lines = layout.lines
    end = column + len(lines[0]) if len(lines) == 1 else len(lines[-1])
    return _Placed(penalty + layout.penalty, end, broken, newline, lines, before)


def _lines(last: _Placed, joints: Sequence[str], indent: int) -> tuple[str, ...]:
    """Returns the lines of all items up to the last one."""
    chain: list[_Placed] = [last]
    while (before := chain[-1].before) is not None:
        chain.append(before)
    chain.reverse()
    lines = list(chain[0].lines)
    for joint, item in zip(joints, chain[1:], strict=True):
        lines[-1] += joint
        if item.newline:
            lines.append(" " * indent + item.lines[0])
        else:
            lines[-1] += f" {item.lines[0]}"
        lines += item.lines[1:]
    return tuple(lines)


def _parse(text: str) -> _Node:
    """Parses a statement without its semicolon into calls, lists and chains of operators."""
    # A list of template arguments is part of a name.
    tokens = [token for token in _TOKEN.finditer(text) if not token[0].startswith("<")]
    return _Parser(text, tokens).expression(0)


@dataclass
class _Parser:
    text: str
    tokens: list[re.Match[str]]
    """Brackets, commas and operators."""
    at: int = 0
    """The next token."""

    def _next(self) -> re.Match[str] | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def expression(self, begin: int) -> _Node:
        """Parses an expression from column `begin` to a comma, a closing bracket or the end."""
        operands: list[tuple[int, int, _Node]] = []
        operators: list[str] = []
        while True:
            node = self._operand(begin)
            token = self._next()
            end = len(self.text) if token is None else token.start()
            operands.append((begin, end, node))
            if token is None or token["operator"] is None:
                return self._chain(operands, operators)
            operators.append(token["operator"])
            begin = token.end()
            self.at += 1

    def _chain(self, operands: list[tuple[int, int, _Node]], operators: list[str]) -> _Node:
        """Groups operands by the operators of lowest precedence; others become sub-chains."""
        if not operators:
            return operands[0][2]
        least = min(_PRECEDENCE[o] for o in operators)
        ends = [i for i, o in enumerate(operators) if _PRECEDENCE[o] == least]
        nodes: list[_Node] = []
        first = 0
        for last in (*ends, len(operators)):
            nodes.append(self._chain(operands[first : last + 1], operators[first:last]))
            first = last + 1
        text = self.text[operands[0][0] : operands[-1][1]]
        return _Chain(text, tuple(nodes), tuple(operators[i] for i in ends))

    def _operand(self, begin: int) -> _Node:
        """Parses a call, a list or parentheses at the first opening bracket; else plain text."""
        token = self._next()
        if token is None or token[0] not in "({":
            return self.text[begin : len(self.text) if token is None else token.start()]
        head = self.text[begin : token.end()]
        items, closing = self._items()
        depth = 0
        while (token := self._next()) is not None:
            if not depth and token[0] not in "({":
                break
            depth += (token[0] in "({") - (token[0] in ")}")
            self.at += 1
        end = len(self.text) if token is None else token.start()
        text = self.text[begin:end]
        name_only = len(items) == 1 and isinstance(items[0], str) and len(text) <= _UNBROKEN
        if not items or name_only:
            return text
        return _Group(text, head, tuple(items), self.text[closing:end])

    def _items(self) -> tuple[list[_Node], int]:
        """Parses the items in the brackets that the next token opens, up to the closing column."""
        items: list[_Node] = []
        while True:
            begin = self.tokens[self.at].end()
            self.at += 1
            item = self.expression(begin)
            if item:
                items.append(item)
            token = self._next()
            assert token is not None, f"expected a closing bracket in {self.text}"
            if token[0] != ", ":
                self.at += 1
                return items, token.start()
