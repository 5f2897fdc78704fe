"""The interface by which an operation brings the rule for its gradient.

`derive-backward` goes through a function from its end and asks each operation what the gradients of
its results mean for its operands. A new operation brings its own answer:

```python
class ScaleGradient(GradientTrait):
    @classmethod
    def gradient(cls, op, gradients, builder):
        assert isinstance(op, ScaleOp)
        return [builder.gradient_of(op.x, ScaleOp(gradients[0], op.factor))]
```
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import OpTrait
from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.dialects.moe.checks import sum_type

Gradient: TypeAlias = tuple[SSAValue, SSAValue]
"""A value of the forward function, and a gradient with respect to it."""


class GradientError(PassFailedException):
    """No gradient goes through an operation as it stands; the message says why."""


@dataclass
class GradientBuilder:
    """Where a rule puts its operations, and how gradients are to be represented."""

    block: Block
    """The body of the backward function, as far as it has been made."""
    activation_weight_gradients: bool = False
    """Whether gradients of weights have the element type of the weights rather than f32."""
    location: LocationAttr = UNKNOWN_LOC
    """The place of the operation whose gradient is being made."""

    def weight_gradient_type(self, element_type: Attribute) -> Attribute:
        """Element type of the gradient of weights of `element_type`."""
        return element_type if self.activation_weight_gradients else sum_type(element_type)

    def insert(self, op: Operation, name: str) -> SSAValue:
        """Adds an operation of one result, which gets `name`."""
        op.location = self.location
        op.results[0].name_hint = name
        self.block.add_op(op)
        return op.results[0]

    def gradient_of(self, value: SSAValue, op: Operation) -> Gradient:
        """Adds an operation whose only result is a gradient with respect to `value`."""
        return value, self.insert(op, gradient_name(value))


def gradient_name(value: SSAValue) -> str:
    """`dNAME` for the gradient with respect to a value called NAME."""
    return f"d{value.name_hint or ''}"


class GradientTrait(OpTrait, ABC):
    """An operation that says itself how a gradient goes through it."""

    @classmethod
    @abstractmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        """What gradients of the results of `op` add to the gradients of its operands.

        `gradients[i]` is the gradient with respect to result i, None where nothing depends on it.
        The rule may use all values that `op` uses and makes; those it uses are saved by the forward
        function or made again. A pair's value comes before `op`: an operand, or what an operand is
        made of where an operation is undone together with the one before it. Gradients of
        activations come first in the order of operations, since others wait for them. Gradients
        that nobody needs are dropped.
        """
