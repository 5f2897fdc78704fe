"""Construction of the backward function from gradient operations that use forward values."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    FunctionType,
    StringAttr,
    SymbolRefAttr,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import Pure
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.moe.signature import role_attributes
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dialects.role import FORWARD, Role, RoleKind
from hpmoe_ir.passes.gradient.reverse_sweep import Sweep


@dataclass
class BackwardFunction:
    """Builder of the backward function of `function`."""

    function: FuncOp
    sweep: Sweep
    again: set[Operation]
    """Operations of the forward function to repeat if their results are needed, instead of saving
    the results. Operations with non-tensor results (routes) are always repeated."""
    inputs: list[BlockArgument] = field(default_factory=list[BlockArgument])
    saved: list[OpResult] = field(default_factory=list[OpResult])
    repeated: list[Operation] = field(default_factory=list[Operation])

    def build(self) -> None:
        """Adds saved values to the forward function's results and inserts the backward function."""
        self._decide()
        mapper = self._add_arguments()
        self._repeat(mapper)
        block = self.sweep.block
        for op in block.ops:
            for i, operand in enumerate(op.operands):
                op.operands[i] = mapper.get(operand, operand)
        gradients = [mapper.get(value, value) for value in self.sweep.gradients.values()]
        block.add_op(ReturnOp(*gradients))
        self._return_saved()
        self._insert(gradients)

    def _decide(self) -> None:
        """Decides which forward values are inputs, saved or repeated, in the function's order."""
        forward = self.function.body.block
        needed = {operand for op in self.sweep.block.ops for operand in op.operands} | set(
            self.sweep.gradients.values()
        )
        for op in reversed(list(forward.ops)):
            used = [result for result in op.results if result in needed]
            if not used:
                continue
            if op in self.again or not all(isa(value.type, AnyTensor) for value in used):
                if not op.has_trait(Pure):
                    refuse(op, f"derive-backward: {op.name}: expected a pure operation to repeat")
                needed.update(op.operands)
                self.repeated.insert(0, op)
            else:
                self.saved[:0] = used
        self.inputs = [arg for arg in forward.args if arg in needed]

    def _add_arguments(self) -> dict[SSAValue, SSAValue]:
        """Adds arguments for inputs and saved values, between gradients and accumulators."""
        block = self.sweep.block
        at = len(self.sweep.results)
        # Accumulators of weights without a gradient are dropped.
        kept = set(self.sweep.accumulators.values())
        for arg in list(block.args[at:]):
            if arg not in kept:
                block.erase_arg(arg)
        mapper: dict[SSAValue, SSAValue] = {}
        for value in (*self.inputs, *self.saved):
            mapper[value] = block.insert_arg(value.type, at)
            mapper[value].name_hint = value.name_hint
            at += 1
        return mapper

    def _repeat(self, mapper: dict[SSAValue, SSAValue]) -> None:
        """Copies operations to be repeated: routes first, then, while the first gradients are being
        communicated, those that need no gradient."""
        block = self.sweep.block
        first = block.first_op
        repeated = {result for op in self.repeated for result in op.results}
        routes = {r for r in repeated if not isa(r.type, AnyTensor)}
        later = next(
            (
                op
                for op in block.ops
                if any(
                    operand in repeated - routes
                    or (isinstance(operand.owner, Operation) and operand.owner.parent is block)
                    for operand in op.operands
                )
            ),
            None,
        )
        early = self._needed_for(routes)
        for op in self.repeated:
            copy = op.clone(mapper)
            before = first if op in early else later
            if before is None:
                block.add_op(copy)
            else:
                block.insert_op_before(copy, before)

    def _needed_for(self, values: set[OpResult]) -> set[Operation]:
        """Returns the repeated operations in the backward slice of `values`."""
        found: set[Operation] = set()
        for op in reversed(self.repeated):
            if any(r in values or any(u.operation in found for u in r.uses) for r in op.results):
                found.add(op)
        return found

    def _insert(self, gradients: list[SSAValue]) -> None:
        """Inserts the function after the forward one, with the roles of arguments and results."""
        block, sweep, forward = self.sweep.block, self.sweep, self.function.body.block
        last = forward.last_op
        assert last is not None
        results = list(last.operands)
        roles = [
            *(Role(RoleKind.RESULT_GRADIENT, results.index(value)) for value in sweep.results),
            *(Role(RoleKind.ARGUMENT, arg.index) for arg in self.inputs),
            *(Role(RoleKind.RESULT, results.index(value)) for value in self.saved),
            *(Role(RoleKind.ACCUMULATOR, arg.index) for arg in sweep.accumulators),
        ]
        outer = self.function.parent
        assert isinstance(outer, Block), "a function is in a module"
        name = self.function.sym_name.data
        backward = FuncOp(
            unused_name(outer, f"{name}_backward"),
            FunctionType.from_lists(block.arg_types, [value.type for value in gradients]),
            Region(block),
            arg_attrs=role_attributes(roles),
            res_attrs=role_attributes(
                Role(RoleKind.ARGUMENT_GRADIENT, arg.index) for arg in sweep.gradients
            ),
        )
        backward.attributes[FORWARD] = SymbolRefAttr(name)
        backward.location = self.function.location
        outer.insert_op_after(backward, self.function)

    def _return_saved(self) -> None:
        """Appends the saved values that are not yet results to the forward function's results."""
        last = self.function.body.block.last_op
        assert isinstance(last, ReturnOp)
        own = list(last.arguments)
        added = [value for value in self.saved if value not in own]
        if not added:
            return
        results = [*own, *added]
        returned = ReturnOp(*results)
        returned.location = last.location
        block = self.function.body.block
        block.insert_op_after(returned, last)
        last.detach()
        last.erase()
        self.function.function_type = FunctionType.from_lists(
            block.arg_types, [value.type for value in results]
        )
        stated = self.function.res_attrs or [DictionaryAttr({})] * len(own)
        saved = role_attributes([Role(RoleKind.SAVED)] * len(added))
        self.function.res_attrs = ArrayAttr([*stated, *saved])


def unused_name(module: Block, name: str) -> str:
    """Returns `name`, with a number appended if a symbol of the module already has it."""
    used = {
        symbol.data
        for op in module.ops
        if isinstance(symbol := op.get_attr_or_prop("sym_name"), StringAttr)
    }
    wanted, count = name, 0
    while name in used:
        count += 1
        name = f"{wanted}_{count}"
    return name
