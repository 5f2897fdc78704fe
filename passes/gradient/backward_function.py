"""From gradient operations that use forward values to a function of its own that is given them."""

from __future__ import annotations

from dataclasses import dataclass, field

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.traits import Pure
from xdsl.utils.hints import isa

from hpmoe_ir.diagnostics import refuse
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.passes.gradient.reverse_sweep import Sweep

BACKWARD = "_backward"
"""What the name of a backward function ends in."""
SAVED = "moe.saved"
"""On a result of the forward and an argument of the backward function: the value's name."""
GRADIENT = "moe.gradient"
"""On an argument or result of the backward function: of which result or argument."""
ACCUMULATOR = "moe.accumulator"
"""On an argument of the backward function: of which weights."""


@dataclass
class BackwardFunction:
    """The backward function of `function`, while it is put together."""

    function: FuncOp
    sweep: Sweep
    again: set[Operation]
    """Operations of the forward function to repeat, if their results are needed, where results of
    others are saved. What is no tensor, a route, can't be saved and is made again in any case."""
    inputs: list[BlockArgument] = field(default_factory=list[BlockArgument])
    saved: list[OpResult] = field(default_factory=list[OpResult])
    repeated: list[Operation] = field(default_factory=list[Operation])

    def build(self) -> None:
        """Adds saved values to the forward function's results, and the function behind it."""
        self._decide()
        names = self._names()
        mapper = self._add_arguments()
        self._repeat(mapper)
        block = self.sweep.block
        for op in block.ops:
            for i, operand in enumerate(op.operands):
                op.operands[i] = mapper.get(operand, operand)
        gradients = [mapper.get(value, value) for value in self.sweep.gradients.values()]
        block.add_op(ReturnOp(*gradients))
        self._insert(gradients, names)
        self._return_saved(names)

    def _decide(self) -> None:
        """Which forward values are given, which are made again: in the order of the function."""
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

    def _names(self) -> dict[SSAValue, str]:
        """A name for each argument, result and saved value, each given once."""
        last = self.function.body.block.last_op
        assert last is not None
        names: dict[SSAValue, str] = {}
        used: set[str] = set()
        for stem, values in (
            ("arg", self.function.body.block.args),
            ("out", last.operands),
            ("saved", self.saved),
        ):
            for i, value in enumerate(values):
                if value in names:
                    continue
                wanted = name = value.name_hint or f"{stem}{i}"
                count = 1
                while name in used:
                    name, count = f"{wanted}_{count}", count + 1
                used.add(name)
                names[value] = name
        return names

    def _add_arguments(self) -> dict[SSAValue, SSAValue]:
        """Adds arguments for inputs and saved values between gradients and accumulators."""
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
        """Copies operations to be repeated: routes, and then, once the first gradients are on
        their way, what needs no gradient."""
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
        """The repeated operations that `values` come from."""
        found: set[Operation] = set()
        for op in reversed(self.repeated):
            if any(r in values or any(u.operation in found for u in r.uses) for r in op.results):
                found.add(op)
        return found

    def _insert(self, gradients: list[SSAValue], names: dict[SSAValue, str]) -> None:
        block, sweep = self.sweep.block, self.sweep
        marks = [
            *({GRADIENT: names[value]} for value in sweep.results),
            *({} for _ in self.inputs),
            *({SAVED: names[value]} for value in self.saved),
            *({ACCUMULATOR: names[arg]} for arg in sweep.accumulators),
        ]
        backward = FuncOp(
            self.function.sym_name.data + BACKWARD,
            FunctionType.from_lists(block.arg_types, [value.type for value in gradients]),
            Region(block),
            arg_attrs=_attributes(marks),
            res_attrs=_attributes([{GRADIENT: names[arg]} for arg in sweep.gradients]),
        )
        backward.location = self.function.location
        outer = self.function.parent
        assert isinstance(outer, Block), "a function is in a module"
        outer.insert_op_after(backward, self.function)

    def _return_saved(self, names: dict[SSAValue, str]) -> None:
        """Makes the saved values results of the forward function, those behind its own that are
        none yet."""
        last = self.function.body.block.last_op
        assert isinstance(last, ReturnOp)
        own = list(last.arguments)
        results = [*own, *(value for value in self.saved if value not in own)]
        attributes = [
            dict(a.data) for a in self.function.res_attrs or [DictionaryAttr({})] * len(own)
        ]
        attributes += [{} for _ in results[len(own) :]]
        for value in self.saved:
            attributes[results.index(value)][SAVED] = StringAttr(names[value])
        returned = ReturnOp(*results)
        returned.location = last.location
        block = self.function.body.block
        block.insert_op_after(returned, last)
        last.detach()
        last.erase()
        self.function.function_type = FunctionType.from_lists(
            block.arg_types, [value.type for value in results]
        )
        if any(attributes):
            self.function.res_attrs = ArrayAttr(DictionaryAttr(a) for a in attributes)


def _attributes(marks: list[dict[str, str]]) -> ArrayAttr[DictionaryAttr]:
    def strings(names: dict[str, str]) -> dict[str, Attribute]:
        return {key: StringAttr(name) for key, name in names.items()}

    return ArrayAttr(DictionaryAttr(strings(names)) for names in marks)
