"""The trait by which an operation defines its gradient.

`derive-backward` visits the operations of a function in reverse order and asks each one for the
gradients of its operands, given those of its results. A new operation defines its own rule:

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
    """An operation that cannot be differentiated; the message says why."""


@dataclass
class GradientBuilder:
    """Inserts the operations of gradient rules, and chooses the types of gradients."""

    block: Block
    """The body of the backward function under construction."""
    activation_weight_gradients: bool = False
    """Whether gradients of weights have the element type of the weights rather than f32."""
    location: LocationAttr = UNKNOWN_LOC
    """The source location of the operation being differentiated."""

    def weight_gradient_type(self, element_type: Attribute) -> Attribute:
        """Returns the element type of the gradient of weights of `element_type`."""
        return element_type if self.activation_weight_gradients else sum_type(element_type)

    def insert(self, op: Operation, name: str) -> SSAValue:
        """Appends an operation with one result, whose name hint becomes `name`."""
        op.location = self.location
        op.results[0].name_hint = name
        self.block.add_op(op)
        return op.results[0]

    def gradient_of(self, value: SSAValue, op: Operation) -> Gradient:
        """Appends an operation whose only result is a gradient with respect to `value`."""
        return value, self.insert(op, gradient_name(value))


def gradient_name(value: SSAValue) -> str:
    """Returns `dNAME`, the name of the gradient with respect to a value called NAME."""
    return f"d{value.name_hint or ''}"


class GradientTrait(OpTrait, ABC):
    """Trait of an operation that defines its own gradient."""

    @classmethod
    @abstractmethod
    def gradient(
        cls, op: Operation, gradients: Sequence[SSAValue | None], builder: GradientBuilder
    ) -> Sequence[Gradient]:
        """Returns contributions to gradients of operands of `op`, given gradients of its results.

        `gradients[i]` is the gradient with respect to result i, None if nothing depends on it. The
        rule may use all operands and results of `op`; those it uses are saved by the forward
        function or recomputed. The value of a returned pair is an operand of `op`, or an operand of
        its defining op if the rule differentiates both at once. Insert the gradients of activations
        first, since other tasks wait for them. Unused gradients are dropped.
        """
