"""Execution of a function of the `moe` level in float64, exact or with random rounding errors.

A graph's tensors are retyped to f64, so the interpreter functions of the graph levels, those of
other packages included, compute without rounding to the storage types. A `Sample` then adds to each
result what a run may add: the error of evaluating the operation in float32, and the rounding to the
result's storage type. docs/tolerance.md describes the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    BFloat16Type,
    Float16Type,
    Float32Type,
    Float64Type,
    ModuleOp,
    TensorType,
    f64,
)
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.interpreter import Interpreter, OpImplResult, PythonValues
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import InterpretationError
from xdsl.utils.hints import isa

from hpmoe_ir.dialects import moe
from hpmoe_ir.dialects.evaluation_error import EvaluationErrorTrait
from hpmoe_ir.dialects.placement import AnyTensor
from hpmoe_ir.dtypes import Dtype, Float64Array, unit_roundoff
from hpmoe_ir.interpreter.module import register_functions, run_module
from hpmoe_ir.interpreter.route import RankRoute
from hpmoe_ir.interpreter.values import Array, PerRank

FLOAT32 = unit_roundoff("f32")

FUNCTION_ERROR = 16 * FLOAT32
"""Relative error of an element-wise operation in float32: a few functions such as exp and division,
each within 4 units in the last place on the device, and a few products."""

OPERAND_ERROR = 4 * FLOAT32
"""Relative change of the operands of an operation whose effect on the result is attributed to
float32 arithmetic within the operation, as where a difference cancels."""

SMALLEST_EXPONENT: dict[Dtype, int] = {"bf16": -126, "f16": -14, "f32": -126, "f64": -1022}
"""Exponents of the smallest normal numbers."""

LARGEST: dict[Dtype, float] = {
    "bf16": 2.0**128 * (1 - 2.0**-8),
    "f16": 65504.0,
    "f32": 2.0**128 * (1 - 2.0**-24),
    "f64": float(np.finfo(np.float64).max),
}
"""Largest finite numbers."""

Widths: TypeAlias = dict[Operation, list[PerRank | None]]
"""Largest evaluation error by operation, result and rank; None for integers and exact copies."""

_COPIES = (moe.DispatchOp, moe.CollectOp)
_REDUCTIONS = (
    moe.GroupedMatmulOp,
    moe.CombineOp,
    moe.WeightedSumOp,
    moe.SumCopiesOp,
    moe.GateGradientOp,
    moe.DispatchWeightedOp,
    moe.AddOp,
)
"""Operations that are sums of products of their operands."""


class NotReproducible(InterpretationError):
    """An operation whose interpreter function returns other values for the same operands."""


@dataclass(frozen=True)
class Sample:
    """Random rounding errors of one run. The same number in results of the same kind of operation
    has the same error, as in a run, in which rounding is a function of the number."""

    seed: int

    def draw(self, values: Float64Array, kind: int) -> Float64Array:
        """Returns numbers in [-1, 1), uniform, each a function of the seed, `kind` and the value.

        The mixing function is the finalizer of MurmurHash3 (Appleby, 2011).
        """
        key = np.random.SeedSequence([self.seed, kind]).generate_state(1, np.uint64)[0]
        bits = np.ascontiguousarray(values, np.float64).view(np.uint64) ^ key
        bits ^= bits >> np.uint64(33)
        bits *= np.uint64(0xFF51AFD7ED558CCD)
        bits ^= bits >> np.uint64(33)
        bits *= np.uint64(0xC4CEB9FE1A85EC53)
        bits ^= bits >> np.uint64(33)
        bits >>= np.uint64(11)
        found = bits.astype(np.float64)
        found *= 2.0**-52
        found -= 1.0
        return found


class Float64Function:
    """A module in float64: its functions without rounding, or with the errors of a sample."""

    def __init__(self, module: ModuleOp) -> None:
        """Retypes a copy of `module`, which is of the `moe` level."""
        self._module = module.clone()
        self._dtypes: dict[Operation, list[Dtype | None]] = {}
        for op in list(self._module.walk()):
            if not isinstance(op, FuncOp):
                self._dtypes[op] = [_storage(result.type) for result in op.results]
            for value in _defined(op):
                if isa(value.type, AnyTensor) and isinstance(value.type.element_type, AnyFloat):
                    real = TensorType(f64, value.type.get_shape(), value.type.encoding)
                    Rewriter.replace_value_with_new_type(value, real)
        for op in self._module.ops:
            if isinstance(op, FuncOp) and not op.is_declaration:
                op.update_function_type()
        self._interpreter = _Float64Interpreter(self._module, self._dtypes)
        self._registered = False

    def exact(
        self, function: str, args: Sequence[Sequence[Array]], *, note_errors: bool = True
    ) -> list[PerRank]:
        """Returns `results[i][r]` of `function` on `args[i][r]`, without rounding.

        `note_errors`: whether to note the evaluation errors, for samples on the same values.

        A number beyond the range of its storage type is infinite. Raises InterpretationError, also
        for an operation of another package that can't be run in float64, and NotReproducible.
        """
        self._interpreter.sample = None
        self._interpreter.note_errors = note_errors
        return self._run(function, args)

    def sampled(
        self, function: str, args: Sequence[Sequence[Array]], sample: Sample
    ) -> list[PerRank]:
        """Returns the results with the rounding errors of `sample`, after a call of `exact`."""
        self._interpreter.sample = sample
        return self._run(function, args)

    def _run(self, function: str, args: Sequence[Sequence[Array]]) -> list[PerRank]:
        if not self._registered:
            register_functions(self._interpreter, self._module, len(args[0]) if args else 1)
            self._registered = True
        with np.errstate(all="ignore"):
            try:
                return run_module(self._module, function, args, self._interpreter)
            except InterpretationError:
                raise
            except Exception as e:  # the code of another package: it may raise anything
                name = f"{type(e).__name__}: {e}".splitlines()[0]
                raise InterpretationError(f"it can't be run in float64: {name}") from e


def _defined(op: Operation) -> Iterator[SSAValue]:
    yield from list(op.results)
    for region in op.regions:
        for block in region.blocks:
            yield from list(block.args)


def _storage(type: Attribute) -> Dtype | None:
    """Returns the float type in which a run stores a value; None for others."""
    if not isa(type, AnyTensor):
        return None
    match type.element_type:
        case BFloat16Type():
            return "bf16"
        case Float16Type():
            return "f16"
        case Float32Type():
            return "f32"
        case Float64Type():
            return "f64"
        case _:
            return None


def half_ulp(values: Float64Array, dtype: Dtype) -> Float64Array:
    """Returns the largest error of rounding each value to `dtype`.

    It is half the distance of the neighbouring numbers, and 0 for numbers of the type.
    """
    exponent_bits = np.uint64(0x7FF0000000000000)
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    powers = (bits & exponent_bits).view(np.float64)
    spacing = unit_roundoff(dtype) * np.maximum(powers, 2.0 ** SMALLEST_EXPONENT[dtype])
    lost = np.uint64(2.0**53 * unit_roundoff(dtype)) - np.uint64(1)
    subnormal = powers < 2.0 ** SMALLEST_EXPONENT[dtype]
    return np.where((bits & lost == 0) & ~subnormal | (values == 0.0), 0.0, spacing)


def in_range(values: Float64Array, dtype: Dtype) -> Float64Array:
    """Returns the values, infinite where rounding to `dtype` overflows."""
    largest = LARGEST[dtype]
    if dtype == "f64":
        return values
    limit = largest * (1 + unit_roundoff(dtype) / 2)
    return np.where(np.abs(values) >= limit, np.copysign(np.inf, values), values)


class _Float64Interpreter(Interpreter):
    """An interpreter of a graph in float64, which changes the results of operations on tensors."""

    dtypes: dict[Operation, list[Dtype | None]]
    """Storage types of the results of each operation; None for those that are not floats."""
    widths: Widths
    sample: Sample | None = None
    """The errors to add; None to compute without rounding."""
    note_errors: bool = True
    """Whether to note the largest evaluation errors, without a sample."""

    def __init__(self, module: ModuleOp, dtypes: dict[Operation, list[Dtype | None]]) -> None:
        super().__init__(module)
        self.dtypes = dtypes
        self.widths = {}

    def _run_op(self, op: Operation, inputs: PythonValues) -> OpImplResult:
        found = super()._run_op(op, inputs)
        dtypes = self.dtypes.get(op)
        if dtypes is None or isinstance(op, ReturnOp | CallOp):
            return found
        values = [
            value if dtype is None else self._result(op, i, dtype, inputs, cast(PerRank, value))
            for i, (value, dtype) in enumerate(zip(found.values, dtypes, strict=True))
        ]
        return OpImplResult(tuple(values), found.terminator_value)

    def _again(self, op: Operation, inputs: PythonValues, index: int) -> PerRank:
        """Returns a result of `op` on other inputs."""
        return cast(PerRank, super()._run_op(op, inputs).values[index])

    def _result(
        self, op: Operation, index: int, dtype: Dtype, inputs: PythonValues, value: PerRank
    ) -> PerRank:
        if self.sample is not None:
            return self._sampled(self.sample, op, index, dtype, value)
        if self.note_errors:
            noted = self.widths.setdefault(op, [None] * len(op.results))
            copies = isinstance(op, _COPIES)
            noted[index] = None if copies else self._width(op, index, inputs, value)
        return [in_range(np.asarray(array, np.float64), dtype) for array in value]

    def _sampled(
        self, sample: Sample, op: Operation, index: int, dtype: Dtype, value: PerRank
    ) -> PerRank:
        widths = self.widths[op][index]
        if widths is None:
            return value
        # Operations of one name round the same number in the same way, so that what is recomputed
        # is the same as what was computed.
        kind = int.from_bytes(op.name.encode()[-8:], "little")
        found: PerRank = []
        for array, width in zip(value, widths, strict=True):
            real = np.asarray(array, np.float64)
            error = (width + half_ulp(real, dtype)) * sample.draw(real, kind)
            found.append(in_range(real + error, dtype))
        return found

    def _width(self, op: Operation, index: int, inputs: PythonValues, value: PerRank) -> PerRank:
        trait = op.get_trait(EvaluationErrorTrait)
        if trait is not None:
            return trait.evaluation_error(op, index, inputs, value)
        if isinstance(op, _REDUCTIONS):
            sums = self._again(op, tuple(_absolute(v) for v in inputs), index)
            return [
                _sum_width(own, total, terms)
                for own, total, terms in zip(value, sums, _terms(op, inputs), strict=True)
            ]
        if any(
            a.tobytes() != b.tobytes()
            for a, b in zip(value, self._again(op, inputs, index), strict=True)
        ):
            raise NotReproducible(f"{op.name} gives other values for the same operands")
        widths = [FUNCTION_ERROR * np.abs(array.astype(np.float64)) for array in value]
        for seed in range(2):
            moved = self._again(op, tuple(_moved(v, seed) for v in inputs), index)
            widths = [
                np.maximum(width, np.abs(other - array) + FUNCTION_ERROR * np.abs(array))
                for width, other, array in zip(widths, moved, value, strict=True)
            ]
        return widths


def _is_tensor(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(a, np.ndarray) and np.issubdtype(cast(Array, a).dtype, np.floating)
        for a in cast(list[object], value)
    )


def _absolute(value: object) -> object:
    return [np.abs(a) for a in cast(PerRank, value)] if _is_tensor(value) else value


def _moved(value: object, seed: int) -> object:
    if not _is_tensor(value):
        return value
    # Halves of a row that are the same numbers must not move in the same way: the seed is by place.
    rng = np.random.default_rng(seed)
    return [
        a * (1.0 + OPERAND_ERROR * rng.choice((-1.0, 1.0), a.shape)) for a in cast(PerRank, value)
    ]


def _terms(op: Operation, inputs: PythonValues) -> list[int]:
    """Returns how many float32 roundings each element of a reduction has, by rank."""
    first = cast(PerRank, inputs[0])
    match op:
        case moe.GroupedMatmulOp() if op.transpose_lhs is not None:
            return [max(len(a), 1) + 1 for a in first]
        case moe.GroupedMatmulOp() | moe.GateGradientOp():
            return [a.shape[1] for a in first]
        case moe.CombineOp() | moe.WeightedSumOp():
            routes = cast(list[RankRoute], inputs[2])
            return [2 * route.position.shape[1] for route in routes]
        case moe.SumCopiesOp():
            routes = cast(list[RankRoute], inputs[1])
            return [route.position.shape[1] for route in routes]
        case _:
            return [1] * len(first)


def _sum_width(exact: Array, total: Array, terms: int) -> Float64Array:
    """Returns the error of a sum in float32, given the sum of the magnitudes of its terms.

    Each partial sum, in any order, is at most `total`. If that is beyond the range of float32, the
    sum may overflow in one order and not in another: the error is infinite, unless terms of one
    sign overflow anyway and the others can't.
    """
    width = np.sqrt(float(terms)) * FLOAT32 * total
    largest = LARGEST["f32"]
    overflows = (np.abs(exact) > 1.001 * largest) & (total - np.abs(exact) < largest)
    return np.where((total > largest) & ~overflows, np.inf, width)
