"""Primitives on stand-in values."""

from typing import Any

import numpy as np
import pytest

from hpmoe_ir.frontends.mindir import GraphOp, ValueType
from hpmoe_ir.frontends.stand_in import (
    Exact,
    Operand,
    Rows,
    UnsupportedOpError,
    Value,
    Weights,
    WeightTable,
    parameter,
)
from hpmoe_ir.frontends.stand_in_args import Args
from hpmoe_ir.frontends.stand_in_experts import COLLECTIVES, EXPERT_OPS

TABLE = WeightTable(seed=1, ranks=2)


def run(kind: str, *operands: Operand, results: tuple[ValueType, ...] = (), **attributes: Any):
    """Results of a primitive on one rank."""
    op = GraphOp("n", kind, (), results, attributes, "")
    return EXPERT_OPS[kind](Args(op, operands))


def exact(values: Any) -> Exact:
    return Exact(np.array(values))


def rows(*lead: int, columns: int = 1, multiplied: int = 0, width: int = 6) -> Rows:
    """Rows whose stand-ins count up from 1."""
    count = int(np.prod(lead)) * columns
    values = np.arange(1.0, count + 1).reshape(*lead, columns)
    return Rows(values, width, multiplied)


def weights(experts: int = 3, inner: int = 6, outer: int = 8) -> Weights:
    return parameter("w", (experts, inner, outer), 0, TABLE)


def columns_of(value: Value) -> Any:
    assert isinstance(value, Rows)
    return value.values.tolist()


def numbers(value: Value) -> Any:
    assert isinstance(value, Exact)
    return value.array.tolist()


@pytest.mark.parametrize(
    "kind, operands, expected",
    [
        ("AddN", ((exact([1, 2]), exact([3, 4]), exact([5, 6])),), [9, 12]),
        ("AddExt", (exact([1, 2]), 3, 1), [4, 5]),
        ("SubExt", (exact([1, 2]), 3, 1), [-2, -1]),
        ("Sub", (exact([5, 2]), exact([1, 1])), [4, 1]),
        ("FloorDivScalar", (exact([5, -1]), 2), [2, -1]),
        ("FloorMod", (exact([5, -1]), 3), [2, 2]),
        ("FmodScalar", (exact([5, -1]), 3), [2, -1]),
        ("RemainderTensorScalar", (exact([5, -1]), 3), [2, 2]),
        ("Equal", (exact([1, 2]), exact([1, 3])), [True, False]),
        ("Neg", (exact([1, -2]),), [-1, 2]),
        ("ArgSort", (exact([3, 1, 3, 2]), -1, False, True), [1, 3, 0, 2]),
        ("ArgSort", (exact([3, 1, 3, 2]), -1, True, True), [0, 2, 3, 1]),
        ("CumSum", (exact([1, 2, 3]), 0, True, False), [0, 1, 3]),
        ("CumSum", (exact([1, 2, 3]), 0, False, True), [6, 5, 3]),
        ("CumsumExt", (exact([1, 2, 3]), 0, None), [1, 3, 6]),
        ("OneHot", (exact([1, 0]), 3, 1, 0, -1), [[0, 1, 0], [1, 0, 0]]),
        ("GatherD", (exact([[1, 2], [3, 4]]), 1, exact([[1], [0]])), [[2], [3]]),
        ("Select", (exact([True, False]), exact([1, 2]), exact([3, 4])), [1, 4]),
        ("SliceExt", (exact([1, 2, 3, 4]), 0, 1, 3, 1), [2, 3]),
        ("Squeeze", (exact([[1], [2]]), (1,)), [1, 2]),
        ("StopGradient", (exact([1]),), [1]),
        ("BroadcastTo", (exact([[1], [2]]), (-1, 2)), [[1, 1], [2, 2]]),
        ("Tile", (exact([1, 2]), (2,)), [1, 2, 1, 2]),
        ("Concat", ((exact([1]), exact([2, 3])), 0), [1, 2, 3]),
        ("TransposeExtView", (exact([[1, 2]]), 0, 1), [[1], [2]]),
        ("SumExt", (exact([[1, 2], [3, 4]]), None, False, None), 10),
        ("StridedSlice", (exact([[1, 2], [3, 4]]), (0, 1), (2, 2), (1, 1), 0, 0, 0, 0, 2), [2, 4]),
        ("StridedSlice", (exact([1, 2]), (0, 0), (0, 2), (1, 1), 0, 0, 0, 1, 0), [[1, 2]]),
        ("StridedSlice", (exact([[1, 2], [3, 4]]), (0, 1), (0, 2), (1, 1), 0, 0, 1, 0, 2), [2, 4]),
    ],
)
def test_exact_values(kind: str, operands: tuple[Operand, ...], expected: Any):
    assert numbers(run(kind, *operands)[0]) == expected


@pytest.mark.parametrize(
    "kind, operands, expected",
    [
        ("AddN", ((rows(2), rows(2)),), [[2], [4]]),
        ("Mul", (rows(2), exact([[2], [3]])), [[2], [6]]),
        ("Mul", (exact(2), rows(2)), [[2], [4]]),
        ("Add", (exact(np.zeros((2, 6))), rows(2)), [[1], [2]]),
        ("Select", (exact([[True], [False]]), rows(2), exact(0)), [[1], [0]]),
        ("BroadcastTo", (rows(1, 2), (3, -1, 6)), [[[1], [2]]] * 3),
        ("Tile", (rows(2), (2, 1)), [[1], [2], [1], [2]]),
        ("Concat", ((rows(1), rows(2)), 0), [[1], [1], [2]]),
        ("Gather", (rows(3), exact([2, 0]), 0, 0), [[3], [1]]),
        ("IndexSelect", (rows(3), 0, exact([2, 0])), [[3], [1]]),
        (
            "IndexAddExt",
            (exact(0.0 * np.ones((2, 6))), 0, exact([1, 1, 0]), rows(3), 1),
            [[3], [3]],
        ),
        ("TensorScatterAdd", (rows(2), exact([[1], [1]]), rows(2)), [[1], [5]]),
        ("UnsortedSegmentSum", (rows(3), exact([1, 1, 0]), 2), [[3], [3]]),
        ("ReduceSum", (rows(2, 2), (1,), False, False), [[3], [7]]),
        ("SliceExt", (rows(3), 0, 1, 3, 1), [[2], [3]]),
        ("SliceExt", (rows(2, columns=2), 1, 3, 6, 1), [[2], [4]]),
        ("Reshape", (rows(2, columns=2), (2, 2, 3)), [[[1], [2]], [[3], [4]]]),
        ("TransposeExtView", (rows(1, 2), 0, 1), [[[1]], [[2]]]),
        ("Transpose", (rows(1, 2), (1, 0, 2)), [[[1]], [[2]]]),
        ("Squeeze", (rows(2, 1), (1,)), [[1], [2]]),
        ("ExpandDims", (rows(2), 1), [[[1]], [[2]]]),
        ("Cast", (rows(2), 43), [[1], [2]]),
    ],
)
def test_rows(kind: str, operands: tuple[Operand, ...], expected: Any):
    assert columns_of(run(kind, *operands)[0]) == expected


@pytest.mark.parametrize(
    "kind, operands",
    [
        ("Split", (rows(2, columns=2), 1, 2)),
        ("Chunk", (rows(2, columns=2), 2, 1)),
        ("SplitTensor", (rows(2, columns=2), 3, 1)),
        ("SplitWithSize", (rows(2, columns=2), (3, 3), 1)),
    ],
)
def test_halves_of_rows(kind: str, operands: tuple[Operand, ...]):
    first, second = run(kind, *operands)
    assert (columns_of(first), columns_of(second)) == ([[1], [3]], [[2], [4]])
    assert isinstance(first, Rows)
    assert first.width == 3


@pytest.mark.parametrize("kind", ["MatMul", "MatMulExt", "BatchMatMul", "BatchMatMulExt"])
def test_plain_matmuls(kind: str):
    chosen = run("Gather", weights(), exact([2, 0]), 0, 0)[0]
    (product,) = run(kind, rows(2, 1), chosen)
    assert isinstance(product, Rows)
    table = TABLE.get("w", 0, 3, 1, 2)
    assert columns_of(product) == [[table[2][0].tolist()], [(2 * table[0][0]).tolist()]]
    assert (product.width, product.multiplied) == (8, 1)


def test_a_matmul_with_transposed_weights():
    stored = weights(inner=8, outer=6)
    (product,) = run("MatMul", rows(3, 2), stored, False, True)
    assert isinstance(product, Rows)
    assert (product.width, product.columns) == (8, 2)


@pytest.mark.parametrize("counted", [False, True])
def test_grouped_matmuls(counted: bool):
    groups = exact([1, 0, 2] if counted else [1, 1, 3])
    given = [(rows(4),), (weights(),), *[None] * 5]
    if counted:
        operands = [*given, None, groups, None, None, None, 3, 0, 1, 0, None]
    else:
        operands = [*given, groups, 3, 0, False, False]
    (product,) = run("GroupedMatmulV4" if counted else "GroupedMatmul", *operands)
    assert isinstance(product, Rows)
    table = TABLE.get("w", 0, 3, 1, 2)
    assert product.values[0].tolist() == table[0][0].tolist()
    assert product.values[2].tolist() == (3 * table[2][0]).tolist()
    # The last row is in no group.
    assert np.isnan(product.values[3]).all()


def test_two_exchanges_between_ranks():
    def all_ranks(kind: str, *ranks: tuple[Operand, ...], **attributes: Any):
        op = GraphOp("n", kind, (), (), attributes, "")
        return COLLECTIVES[kind]([Args(op, operands) for operands in ranks])

    one = {"split_count": 2, "split_dim": 0, "concat_dim": 0}
    results = all_ranks("AlltoAll", (exact([[1], [2]]),), (exact([[3], [4]]),), **one)
    assert [numbers(r[0]) for r in results] == [[[1], [3]], [[2], [4]]]
    flat = [run("Reshape", r, (-1,))[0] for r in (rows(3), rows(1))]
    sent = ((flat[0], exact([1, 2]), exact([1, 1])), (flat[1], exact([1, 0]), exact([2, 0])))
    results = all_ranks("AlltoAllV", *sent, block_size=6)
    assert [columns_of(r[0]) for r in results] == [[[1], [1]], [[2], [3]]]
    back = run("Reshape", results[0][0], (-1, 6))[0]
    assert isinstance(back, Rows)
    assert back.shape == (2, 6)


@pytest.mark.parametrize(
    "kind, operands, message",
    [
        ("Reshape", (rows(2), (3, 4)), "it makes [3, 4] of [2, 6], which divides rows"),
        ("Reshape", (rows(2), (5, -1)), "it makes [5, -1] of 12 elements"),
        ("Reshape", (weights(), (18, 8)), "it makes [18, 8] of the weights 'w' of [3, 6, 8]"),
        ("Transpose", (rows(2), (1, 0)), "it moves the last axis of the rows"),
        ("Transpose", (weights(), (1, 0, 2)), "it transposes the weights 'w' as a whole"),
        ("ExpandDims", (rows(2), -1), "it divides rows"),
        ("Gather", (rows(2), exact([0]), 1, 0), "it works along the elements of a row"),
        ("Gather", (rows(2), exact([0]), 0, 1), "it gathers by batches"),
        ("Gather", (weights(), exact([0]), 1, 0), "it takes parts of the matrices of 'w'"),
        ("SliceExt", (weights(), 2, 0, 4, 1), "it takes parts of the matrices of 'w'"),
        ("SliceExt", (rows(2), 1, 0, 3, 1), "it takes elements 0 to 3 of rows of 6"),
        (
            "StridedSlice",
            (rows(2), (0, 0), (2, 1), (1, 1), 0, 0, 0, 0, 2),
            "it takes single elements of rows",
        ),
        ("Split", (rows(3), 0, 2), "it splits 3 into 2 parts"),
        ("SplitWithSize", (rows(3), (1, 2), 0), "it splits into unequal parts"),
        ("Concat", ((rows(1), exact([1])), 0), "it joins tensors of different kinds"),
        ("Concat", ((rows(1), rows(1, width=8)), 0), "it joins rows of different widths"),
        ("Concat", (rows(1), 0), "operand 0: expected a list of tensors"),
        (
            "Add",
            (rows(1), exact([[0, 1, 2, 3, 4, 5]])),
            "its operands differ from column to column",
        ),
        ("Add", (rows(1), rows(1, multiplied=1)), "it takes two different kinds of rows"),
        ("Add", (rows(1), weights()), "it takes rows and the weights 'w'"),
        ("Sub", (rows(1), exact(1)), "it takes rows and a tensor of int64 []"),
        ("AddExt", (exact(1), exact(1), 2), "operand 2: expected 1, found 2"),
        ("SiLU", (rows(1),), "it takes rows"),
        (
            "Swiglu",
            (rows(1, columns=2), -1),
            "it takes rows that are not the result of one expert matmul",
        ),
        ("ReduceSum", (rows(1), (), False, False), "it adds up the elements of rows"),
        (
            "TensorScatterAdd",
            (rows(2), exact([[0, 1]]), rows(2)),
            "it does not add up whole rows",
        ),
        (
            "IndexAddExt",
            (rows(2), 0, exact([0]), rows(1), 2),
            "it does not add up whole rows",
        ),
        ("MatMul", (rows(1), weights(), True, False), "it transposes the rows"),
        (
            "MatMul",
            (rows(1, width=5), weights()),
            "it multiplies rows of 5 with weights of [3, 6, 8]",
        ),
        (
            "MatMul",
            (rows(1, multiplied=2), weights()),
            "it multiplies the experts' results once more",
        ),
        ("MatMul", (rows(1), exact([1])), "operand 1: expected expert weights, found a tensor of"),
        (
            "MatMul",
            (exact([1]), weights()),
            "operand 0: expected rows, found a tensor of int64 [1]",
        ),
        ("GroupedMatmul", (rows(1), (weights(),)), "operand 0: expected a list of one tensor"),
        ("GroupedMatmul", ((weights(),), (rows(1),)), "expected rows and expert weights"),
        ("MoeTokenPermute", (rows(2), exact([[0]])), "it permutes 2 rows by 1 ids"),
        (
            "InnerMoeTokenUnpermute",
            (rows(2), exact([0, 1]), None, False, (2, 6)),
            "it pads rows",
        ),
        ("GatherD", (rows(1), 1, exact([1])), "operand 0: expected indices or counts, found rows"),
        ("Sort", ("text",), "operand 0: expected a tensor, found 'text'"),
        ("ExpandDims", (exact([1]), (0, 1)), "operand 1: expected one integer, found 2"),
    ],
)
def test_refusals(kind: str, operands: tuple[Operand, ...], message: str):
    with pytest.raises(UnsupportedOpError) as e:
        run(kind, *operands)
    assert str(e.value).startswith(message)


@pytest.mark.parametrize(
    "kind, operands, attributes, message",
    [
        (
            "AlltoAll",
            (exact([1, 2, 3]),),
            {"split_count": 3, "split_dim": 0, "concat_dim": 0},
            "it exchanges among 3 of 1 ranks",
        ),
        (
            "AlltoAllV",
            (exact([1, 2, 3]), exact([2]), exact([2])),
            {"block_size": 1},
            "it sends 2 blocks of 3 elements",
        ),
        (
            "AlltoAllV",
            (rows(3), exact([2]), exact([2])),
            {"block_size": 6},
            "it sends 2 blocks of 6 of rows of 6",
        ),
        (
            "AlltoAllV",
            (exact([1, 2]), exact([2]), exact([1])),
            {"block_size": 1},
            "it expects other sizes than are sent",
        ),
    ],
)
def test_refused_exchanges(
    kind: str, operands: tuple[Operand, ...], attributes: dict[str, Any], message: str
):
    op = GraphOp("n", kind, (), (), attributes, "")
    with pytest.raises(UnsupportedOpError) as e:
        COLLECTIVES[kind]([Args(op, operands)])
    assert str(e.value) == message


def test_every_primitive_is_tested():
    """Every primitive of the table is used by a test here or in test_raise_moe.py."""
    used = {
        *(
            "Cast Reshape Transpose ExpandDims Concat Split StridedSlice Gather Sort SortExt"
        ).split(),
        *("OneHotExt Muls Mul Add FloorDiv EqScalar SiLU Sigmoid Swiglu MoveTo").split(),
        *("MoeTokenPermute InnerMoeTokenUnpermute GroupedMatmul GroupedMatmulV4").split(),
        *("MatMul MatMulExt BatchMatMul BatchMatMulExt").split(),
        *("AddN AddExt SubExt Sub FloorDivScalar FloorMod FmodScalar").split(),
        *("RemainderTensorScalar Equal Neg ArgSort CumSum CumsumExt OneHot GatherD").split(),
        *("Select SliceExt Squeeze StopGradient BroadcastTo Tile TransposeExtView").split(),
        *("SumExt ReduceSum IndexSelect IndexAddExt TensorScatterAdd").split(),
        *("UnsortedSegmentSum Chunk SplitTensor SplitWithSize").split(),
    }
    assert set(EXPERT_OPS) == used
    assert set(COLLECTIVES) == {"AlltoAll", "AlltoAllV"}
