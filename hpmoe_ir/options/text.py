"""Parser and printer of pipelines: `name{option=value other=1,2 policy=overlap{behind=3}}, ...`.

    pipeline ::= [spec {"," spec}]
    spec     ::= NAME ["{" {option} "}"]
    option   ::= NAME ["=" value {"," value}]
    value    ::= NUMBER | STRING | "true" | "false" | spec

White space between tokens is ignored. This is the language of xDSL's `-p` (xdsl.utils.arg_spec)
extended by values with options of their own. `str` of a Spec parses to an equal Spec.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NoReturn, TypeAlias

from xdsl.utils.arg_spec import ArgSpec

Value: TypeAlias = "bool | int | float | str | Spec"
"""A value of an option. A name without options is a string."""

_TOKENS = re.compile(
    r"""(?P<space>\s+)
      | (?P<name>[0-9]+[A-Za-z_-][A-Za-z0-9_-]*)
      | (?P<number>[-+]?[0-9]+(?:\.[0-9]*(?:[eE][-+]?[0-9]+)?)?)
      | (?P<word>[A-Za-z0-9_-]+)
      | (?P<string>"(?:\\[nfvtr"\\]|[^\n\f\v\r"\\])*")
      | (?P<mark>[{}=,])""",
    re.VERBOSE,
)
"""Tokens, tried in the order of xDSL's lexer: `2d-slice` is a name, `-2` a number."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_ESCAPES = {"n": "\n", "f": "\f", "v": "\v", "t": "\t", "r": "\r", '"': '"', "\\": "\\"}
_ESCAPED = {char: f"\\{letter}" for letter, char in _ESCAPES.items()}
MOST_DEPTH = 16
"""Maximum nesting depth of braces, which bounds the parser's recursion."""


class OptionSyntaxError(ValueError):
    """Malformed pipeline text; the message has the column, the expected and the found token."""


@dataclass(frozen=True)
class Spec:
    """A name with options, such as `overlap{behind=3}`."""

    name: str
    options: Mapping[str, tuple[Value, ...]] = field(default_factory=dict[str, tuple[Value, ...]])
    """Values by option name, spelled with dashes; an option without `=` has no values."""

    def __str__(self) -> str:
        options = " ".join(
            f"{name}={','.join(map(value_text, values))}" if values else name
            for name, values in self.options.items()
        )
        return f"{self.name}{{{options}}}" if options else self.name

    def arg_spec(self) -> ArgSpec:
        """Returns an xDSL `ArgSpec`, in which a value with options is a string."""
        return ArgSpec(
            self.name,
            {
                name: tuple(str(v) if isinstance(v, Spec) else v for v in values)
                for name, values in self.options.items()
            },
        )

    @staticmethod
    def of_arg_spec(spec: ArgSpec) -> Spec:
        """Converts an xDSL `ArgSpec`."""
        return Spec(spec.name, {k.replace("_", "-"): v for k, v in spec.parameters.items()})


def value_text(value: Value) -> str:
    """Returns the text of a value in the pipeline language."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            plain = _NAME.fullmatch(value) and value not in ("true", "false")
            return value if plain else '"' + "".join(_ESCAPED.get(c, c) for c in value) + '"'
        case float():
            # xDSL's lexer needs a decimal point in a float: 1e-07 is written as 1.0e-07.
            text = repr(value)
            return text if "." in text else text.replace("e", ".0e")
        case _:
            return str(value)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind == "end" else f"'{self.text}'"


def parse_pipeline(text: str) -> tuple[Spec, ...]:
    """Parses a comma-separated list of specs; blank text is an empty list.

    Raises OptionSyntaxError.
    """
    parser = _Parser(text)
    specs: list[Spec] = []
    if parser.token.kind == "end":
        return ()
    while True:
        specs.append(parser.spec("a name"))
        if parser.token.kind == "end":
            return tuple(specs)
        parser.take(",", "',' or the end" if parser.after_braces else "'{', ',' or the end")


def parse_spec(text: str) -> Spec:
    """Parses a single spec. Raises OptionSyntaxError."""
    specs = parse_pipeline(text)
    if len(specs) != 1:
        raise OptionSyntaxError(f"expected one name, found {len(specs)}")
    return specs[0]


class _Parser:
    """Recursive-descent parser with one token of look-ahead."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._depth = 0
        self.after_braces = False
        """Whether the last token was a closing brace."""
        self.token = next(self._tokens)

    def advance(self) -> _Token:
        """Consumes and returns the next token."""
        taken = self.token
        self.after_braces = taken.text == "}"
        self.token = next(self._tokens)
        return taken

    def take(self, mark: str, expected: str) -> None:
        """Consumes the punctuation `mark`, or raises OptionSyntaxError with `expected`."""
        if self.token.kind != "mark" or self.token.text != mark:
            self.fail(expected)
        self.advance()

    def at(self, mark: str) -> bool:
        """Returns whether the next token is the punctuation `mark`."""
        return self.token.kind == "mark" and self.token.text == mark

    def fail(self, expected: str, token: _Token | None = None) -> NoReturn:
        """Raises OptionSyntaxError at `token`, by default the next one."""
        token = token or self.token
        raise OptionSyntaxError(f"column {token.column}: expected {expected}, found {token}")

    def spec(self, expected: str) -> Spec:
        """Parses a name and, if a brace follows, its options."""
        if self.token.kind != "name":
            self.fail(expected)
        return Spec(self.advance().text, self._options() if self.at("{") else {})

    def _options(self) -> dict[str, tuple[Value, ...]]:
        if self._depth == MOST_DEPTH:
            self.fail(f"at most {MOST_DEPTH} levels of braces")
        self._depth += 1
        self.advance()
        options: dict[str, tuple[Value, ...]] = {}
        expected = "an option or '}'"
        while not self.at("}"):
            if self.token.kind != "name":
                self.fail(expected)
            token = self.advance()
            name = token.text.replace("_", "-")
            if name in options:
                self.fail("each option once", token)
            options[name], expected = (), "'=', an option or '}'"
            if self.at("="):
                options[name] = self._values()
                expected = "',', an option or '}'"
        self.advance()
        self._depth -= 1
        return options

    def _values(self) -> tuple[Value, ...]:
        values: list[Value] = []
        while not values or self.at(","):
            self.advance()
            values.append(self._value())
        return tuple(values)

    def _value(self) -> Value:
        token = self.token
        match token.kind:
            case "number":
                self.advance()
                try:
                    return float(token.text) if "." in token.text else int(token.text)
                except ValueError:  # Python limits the number of digits, by default to 4300.
                    raise OptionSyntaxError(
                        f"column {token.column}: expected fewer digits, found {len(token.text)}"
                    ) from None
            case "string":
                self.advance()
                return re.sub(r"\\(.)", lambda escape: _ESCAPES[escape[1]], token.text[1:-1])
            case _:
                spec = self.spec('a value: a name, a number or text in quotes ("...")')
                if spec.options:
                    return spec
                return {"true": True, "false": False}.get(spec.name, spec.name)


def _tokens(text: str) -> Iterator[_Token]:
    """Yields the tokens of `text`, then an unlimited number of end tokens."""
    place = 0
    while place < len(text):
        found = _TOKENS.match(text, place)
        if found is None:
            what = "a closing quote" if text[place] == '"' else "a name or a value"
            raise OptionSyntaxError(f"column {place + 1}: expected {what}, found '{text[place]}'")
        kind = found.lastgroup or ""
        if kind != "space":
            yield _Token("name" if kind == "word" else kind, found[0], place + 1)
        place = found.end()
    while True:
        yield _Token("end", "", len(text) + 1)
