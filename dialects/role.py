"""Roles: the meaning of an argument or result of a function or program.

Values are bound to arrays by position and role, never by name: names of SSA values and of buffers
only help readers.

```
func.func @layer(%0: tensor<...> {moe.role = #moe.role<tokens>}, ...)
    -> (tensor<...> {moe.role = #moe.role<output>})
func.func @layer_backward(%0: tensor<...> {moe.role = #moe.role<gradient of result 0>}, ...)
    -> (tensor<...> {moe.role = #moe.role<gradient of argument 0>})
    attributes {moe.forward = @layer}
```
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

ROLE = "moe.role"
"""Name of the attribute of an argument or result that holds its role, a `RoleAttr`."""

FORWARD = "moe.forward"
"""Name of the attribute of a backward function: the symbol of its forward function."""


class RoleKind(StrEnum):
    """The kinds of roles. Those of a layer have no number; the others have the number of an
    argument or result of the forward function."""

    TOKENS = "tokens"
    """The layer's input x, `[tokens, H]`, one row for each token of the rank."""
    EXPERT_IDS = "expert_ids"
    """Ids of each token's experts, i32 `[tokens, K]`."""
    GATE_WEIGHTS = "gate_weights"
    """Router weights, `[tokens, K]`."""
    UP_WEIGHTS = "up_weights"
    """Weights of the gate and up projections side by side, w13, `[L, H, 2I]`."""
    DOWN_WEIGHTS = "down_weights"
    """Weights of the down projection, w2, `[L, I, H]`."""
    OUTPUT = "output"
    """The layer's result, `[tokens, H]`."""
    SAVED = "saved"
    """A value that the forward function saves for its backward function."""
    STATUS = "status"
    """Status words of a launch, i32 `[16]`: whether it fitted the capacity."""
    ARGUMENT = "argument"
    """An argument of the forward function, passed to the backward function too."""
    RESULT = "result"
    """A result of the forward function."""
    ARGUMENT_GRADIENT = "gradient of argument"
    """The gradient with respect to an argument of the forward function."""
    RESULT_GRADIENT = "gradient of result"
    """The gradient with respect to a result of the forward function."""
    ACCUMULATOR = "accumulator of argument"
    """A buffer to which the gradient with respect to an argument of the forward function is
    added."""

    @property
    def is_numbered(self) -> bool:
        """Whether a role of this kind has the number of an argument or result."""
        return self.value.split()[-1] in ("argument", "result")


@dataclass(frozen=True)
class Role:
    """The role of an argument or result: `Role(RoleKind.TOKENS)`, `Role(RoleKind.ARGUMENT, 2)`."""

    kind: RoleKind
    number: int | None = None
    """Number of the argument or result of the forward function, for numbered kinds."""

    def __str__(self) -> str:
        return self.kind.value if self.number is None else f"{self.kind.value} {self.number}"

    @classmethod
    def parse(cls, parser: AttrParser) -> Role:
        """Parses the text of a role, `tokens` or `gradient of argument 2`."""
        word = parser.parse_keyword_in(tuple(_FIRST_WORDS), " as a role")
        while word not in _KINDS:
            word += f" {parser.parse_keyword_in(_NEXT_WORDS[word])}"
        kind = RoleKind(word)
        if not kind.is_numbered:
            return cls(kind)
        return cls(kind, parser.parse_integer(allow_boolean=False, allow_negative=False))


_KINDS = {kind.value for kind in RoleKind}
_FIRST_WORDS = dict.fromkeys(kind.value.split()[0] for kind in RoleKind)
_NEXT_WORDS = {
    "gradient": ("of",),
    "gradient of": ("argument", "result"),
    "accumulator": ("of",),
    "accumulator of": ("argument",),
}


@irdl_attr_definition
class RoleAttr(Data[Role]):
    """The role of an argument or result.

    ```
    #moe.role<gate_weights>
    #moe.role<accumulator of argument 3>
    ```
    """

    name = "moe.role"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Role:
        with parser.in_angle_brackets():
            return Role.parse(parser)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))

    def verify(self) -> None:
        role = self.data
        if role.kind.is_numbered != (role.number is not None):
            wanted = "a number" if role.kind.is_numbered else "no number"
            raise VerifyException(f"role {role.kind.value}: expected {wanted}, found {role}")
        if role.number is not None and role.number < 0:
            raise VerifyException(
                f"role {role.kind.value}: expected 0 or more, found {role.number}"
            )
