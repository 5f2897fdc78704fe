"""Signatures of programs: the caller's buffers in order, each with its role.

`tile.program` and `queue.program` share this part of their text:

```
tile.program @layer_backward forward @layer ranks 2 (@dout: gradient of result 0, @ids: argument 1)
    -> (@dx: gradient of argument 0, @status: status) {
```
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import ArrayAttr, FlatSymbolRefAttr, SymbolRefAttr
from xdsl.ir import Attribute, Data, Operation
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dialects.tile.buffer import BufferOp, MemorySpace

GIVEN = (MemorySpace.INPUT, MemorySpace.INOUT)
"""Spaces of buffers that the caller fills."""
RETURNED = (MemorySpace.INOUT, MemorySpace.OUTPUT)
"""Spaces of buffers that the caller reads."""


@dataclass(frozen=True)
class Parameter:
    """A buffer of the caller and its role."""

    buffer: str
    """The buffer's symbol."""
    role: Role | None = None


@irdl_attr_definition
class ParameterAttr(Data[Parameter]):
    """A buffer of the caller and its role, if one is known.

    ```
    #tile.parameter<@x: tokens>
    ```
    """

    name = "tile.parameter"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Parameter:
        with parser.in_angle_brackets():
            return _parse_parameter(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            _print_parameter(printer, self.data)


@dataclass(frozen=True)
class ProgramSignature:
    """Arguments and results of a program, in the order of its source function."""

    arguments: tuple[Parameter, ...]
    """Buffers that the caller fills."""
    results: tuple[Parameter, ...]
    """Buffers that the caller reads. An accumulator is an argument too."""

    def result(self, kind: RoleKind) -> Parameter | None:
        """Returns the first result with a role of this kind, None without one."""
        return next((p for p in self.results if p.role is not None and p.role.kind is kind), None)


def program_signature(program: Operation) -> ProgramSignature:
    """Returns the signature that a program states, else its caller's buffers in program order."""
    buffers = [op for op in program.regions[0].block.ops if isinstance(op, BufferOp)]

    def listed(name: str, spaces: Sequence[MemorySpace]) -> tuple[Parameter, ...]:
        found = program.properties.get(name)
        if isa(found, ArrayAttr[ParameterAttr]):
            return tuple(entry.data for entry in found)
        return tuple(Parameter(b.sym_name.data) for b in buffers if b.space.data in spaces)

    return ProgramSignature(listed("arguments", GIVEN), listed("results", RETURNED))


def signature_properties(
    signature: ProgramSignature | None, forward: str | None
) -> dict[str, Attribute]:
    """Returns the properties of a program that state its signature."""
    properties: dict[str, Attribute] = {}
    if signature is not None:
        properties["arguments"] = ArrayAttr(ParameterAttr(p) for p in signature.arguments)
        properties["results"] = ArrayAttr(ParameterAttr(p) for p in signature.results)
    if forward is not None:
        properties["forward"] = SymbolRefAttr(forward)
    return properties


def copy_signature(source: Operation, target: Operation) -> None:
    """Copies the signature of the program `source` to the program `target`."""
    for name in ("arguments", "results", "forward"):
        if name in source.properties:
            target.properties[name] = source.properties[name]


def parse_forward(parser: Parser) -> FlatSymbolRefAttr | None:
    """Parses the optional `forward @NAME`."""
    if parser.parse_optional_keyword("forward") is None:
        return None
    return SymbolRefAttr(parser.parse_symbol_name().data)


def parse_signature(parser: Parser) -> ProgramSignature | None:
    """Parses the optional `(@x: tokens) -> (@out: output)`."""

    def parameters() -> tuple[Parameter, ...]:
        return tuple(
            parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, lambda: _parse_parameter(parser)
            )
        )

    arguments = parser.parse_optional_comma_separated_list(
        parser.Delimiter.PAREN, lambda: _parse_parameter(parser)
    )
    if arguments is None:
        return None
    parser.parse_punctuation("->")
    return ProgramSignature(tuple(arguments), parameters())


def print_forward(printer: Printer, forward: FlatSymbolRefAttr | None) -> None:
    """Prints ` forward @NAME` if `forward` is not None."""
    if forward is not None:
        printer.print_string(" forward ")
        printer.print_attribute(forward)


def print_signature(printer: Printer, program: Operation) -> None:
    """Prints `(@x: tokens) -> (@out: output) `, if the program states its signature."""
    if "arguments" not in program.properties:
        return
    signature = program_signature(program)
    for before, parameters in (("", signature.arguments), ("-> ", signature.results)):
        printer.print_string(f"{before}(")
        printer.print_list(parameters, lambda p: _print_parameter(printer, p))
        printer.print_string(") ")


def verify_signature(program: Operation, buffers: Mapping[str, BufferOp]) -> None:
    """Checks that a signature lists each buffer of the caller once, in the right list.

    Raises VerifyException.
    """
    if ("arguments" in program.properties) != ("results" in program.properties):
        raise VerifyException("expected arguments and results to be listed both or neither")
    signature = program_signature(program)
    for what, parameters, spaces in (
        ("arguments", signature.arguments, GIVEN),
        ("results", signature.results, RETURNED),
    ):
        names = [p.buffer for p in parameters]
        for parameter in parameters:
            name, role = parameter.buffer, parameter.role
            buffer = buffers.get(name)
            if buffer is None:
                raise VerifyException(f"{what}: no such buffer @{name}")
            if buffer.space.data not in spaces:
                raise VerifyException(
                    f"{what}: expected {' or '.join(spaces)} buffers, @{name} is "
                    f"{buffer.space.data}"
                )
            if names.count(name) > 1:
                raise VerifyException(f"{what}: @{name} is listed twice")
            if role is not None and role.kind.is_numbered and "forward" not in program.properties:
                raise VerifyException(
                    f"{what}: @{name}: role '{role}' is of a forward program; expected `forward "
                    "@NAME` after the program's name"
                )
        for name, buffer in buffers.items():
            if buffer.space.data in spaces and name not in names:
                raise VerifyException(
                    f"{what}: expected @{name} to be listed, which is {buffer.space.data}"
                )


def _parse_parameter(parser: AttrParser) -> Parameter:
    name = parser.parse_symbol_name().data
    role = Role.parse(parser) if parser.parse_optional_punctuation(":") else None
    return Parameter(name, role)


def _print_parameter(printer: Printer, parameter: Parameter) -> None:
    printer.print_symbol_name(parameter.buffer)
    if parameter.role is not None:
        printer.print_string(f": {parameter.role}")
