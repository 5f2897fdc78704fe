"""Generated routings and what is refused in a user's own."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.routing import (
    RankRouting,
    RoutingError,
    check_capacity,
    check_ids,
    generate_routing,
    parse_routing,
    read_routing,
    received_rows,
    write_routing,
)

LAYER = LayerConfig("small", hidden=64, width=32, experts=8, top_k=2, ranks=4, tokens=64)
COUNTS = [64, 0, 7, 33]


@pytest.mark.parametrize("text", ["balanced", "uniform", "zipf:1.2", "imbalance:1", "one-expert"])
@pytest.mark.parametrize("top_k", [1, 2, 8])
def test_generated_routings_are_legal(text: str, top_k: int):
    layer = LAYER.with_sizes(top_k=top_k)
    spec = parse_routing(text)
    assert str(spec) == text
    routing = generate_routing(spec, layer, COUNTS, seed=3)
    again = generate_routing(spec, layer, COUNTS, seed=3)
    for count, rank, same in zip(COUNTS, routing, again, strict=True):
        assert rank.ids.shape == rank.gates.shape == (count, top_k)
        assert (rank.ids.dtype, rank.gates.dtype) == (np.int32, np.float32)
        assert ((0 <= rank.ids) & (rank.ids < 8)).all()
        assert (np.diff(np.sort(rank.ids, axis=1), axis=1) > 0).all()
        assert (rank.gates > 0).all()
        if top_k > 1:
            assert rank.gates.sum(axis=1) == pytest.approx(1.0, abs=1e-6)
        assert (rank.ids == same.ids).all()
        assert (rank.gates == same.gates).all()


def test_balanced_is_balanced_on_every_rank():
    for rank in generate_routing(parse_routing("balanced"), LAYER, [64, 32, 4, 0], seed=1):
        counts = np.bincount(rank.ids.reshape(-1), minlength=8)
        assert (counts == counts[0]).all()


def test_one_expert_is_the_first_experts():
    routing = generate_routing(parse_routing("one-expert"), LAYER, COUNTS, seed=1)
    assert (routing[0].ids == [0, 1]).all()
    assert received_rows(LAYER, [rank.ids for rank in routing]) == [2 * sum(COUNTS), 0, 0, 0]


def test_zipf_is_skewed_and_uniform_is_not():
    layer = LAYER.with_sizes(tokens=4096, top_k=1)

    def largest_share(text: str) -> float:
        routing = generate_routing(parse_routing(text), layer, [4096] * 4, seed=5)
        return np.bincount(np.concatenate([r.ids.reshape(-1) for r in routing])).max() / 16384

    weights = np.arange(1, 9) ** -1.2
    assert largest_share("zipf:1.2") == pytest.approx(1 / weights.sum(), rel=0.05)
    assert largest_share("zipf:0") == pytest.approx(1 / 8, rel=0.1)
    assert largest_share("uniform") == pytest.approx(1 / 8, rel=0.1)


@pytest.mark.parametrize("imbalance", [1.0, 1.7, 2.0, 3.9, 4.0])
@pytest.mark.parametrize("counts", [[64, 64, 64, 64], [64, 0, 7, 33]])
@pytest.mark.parametrize("top_k", [1, 2])
def test_imbalance_is_largest_over_mean(imbalance: float, counts: list[int], top_k: int):
    layer = LAYER.with_sizes(top_k=top_k)
    routing = generate_routing(parse_routing(f"imbalance:{imbalance}"), layer, counts, seed=4)
    for rank, found in enumerate(routing):
        check_ids(layer, rank, found.ids)
    rows = received_rows(layer, [rank.ids for rank in routing])
    mean = sum(counts) * top_k / 4
    assert max(rows) == pytest.approx(imbalance * mean, abs=1)
    # The others share the rest, and experts of a rank its rows, each to a row.
    others = sorted(rows)[:3]
    assert others[-1] - others[0] <= 2
    experts = np.bincount(np.concatenate([r.ids.ravel() for r in routing]), minlength=8)
    assert (np.abs(np.diff(experts.reshape(4, 2), axis=1)) <= 1).all()


def test_imbalance_has_a_largest_that_is_possible():
    for top_k, most in ((1, 4), (2, 4), (4, 2), (8, 1)):
        layer = LAYER.with_sizes(top_k=top_k)
        generate_routing(parse_routing(f"imbalance:{most}"), layer, COUNTS, 0)
        with pytest.raises(RoutingError) as refused:
            generate_routing(parse_routing(f"imbalance:{most + 0.5}"), layer, COUNTS, 0)
        assert str(refused.value) == (
            f"imbalance: expected at most {most} times the mean, when every token chooses "
            f"{min(top_k, 2)} experts of one rank, found {most + 0.5}"
        )


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "imbalance:0.5",
            "routing 'imbalance:0.5': expected imbalance:X with a number X >= 1, found X = '0.5'",
        ),
        (
            "unifrom",
            "unknown routing 'unifrom'; known: balanced, uniform, zipf:S, imbalance:X, one-expert, "
            "FILE.npz; did you mean 'uniform'?",
        ),
        ("zipf", "routing 'zipf': expected zipf:S with a number S >= 0, found S = ''"),
        ("zipf:-1", "routing 'zipf:-1': expected zipf:S with a number S >= 0, found S = '-1'"),
        ("zipf:nan", "routing 'zipf:nan': expected zipf:S with a number S >= 0, found S = 'nan'"),
    ],
)
def test_unknown_routings_are_refused(text: str, message: str):
    with pytest.raises(RoutingError) as e:
        parse_routing(text)
    assert str(e.value) == message


@pytest.mark.parametrize(
    "tokens, message",
    [
        ([1, 2], "tokens: expected 4 counts, one for each rank, found 2"),
        ([1, 2, 65, 0], "tokens: rank 2: expected 0 to 64 tokens, found 65"),
    ],
)
def test_token_counts_that_do_not_fit_are_refused(tokens: list[int], message: str):
    with pytest.raises(RoutingError) as e:
        generate_routing(parse_routing("uniform"), LAYER, tokens, seed=0)
    assert str(e.value) == message


def test_files_are_read_as_written(tmp_path: Path):
    path = tmp_path / "routing.npz"
    routing = generate_routing(parse_routing("uniform"), LAYER, COUNTS, seed=2)
    write_routing(path, routing)
    for rank, read in zip(routing, generate_routing(parse_routing(str(path)), LAYER, COUNTS, 9)):
        assert (rank.ids == read.ids).all()
        assert (rank.gates == read.gates).all()


def test_missing_gates_are_drawn(tmp_path: Path):
    path = tmp_path / "routing.npz"
    ids = np.array([[0, 1], [2, 3]])
    np.savez(path, **{f"ids.{rank}": ids for rank in range(4)})
    assert read_routing(path, LAYER)[3].gates.shape == (2, 2)


def _with(**changes: Any) -> dict[str, Any]:
    arrays = {f"ids.{rank}": np.array([[0, 1], [2, 3]]) for rank in range(4)}
    return {key: value for key, value in (arrays | changes).items() if value is not None}


@pytest.mark.parametrize(
    "arrays, message",
    [
        (
            _with(**{"ids.2": np.array([[0, 1], [8, 3]])}),
            "rank 2, token 1: expected experts 0 to 7, found 8",
        ),
        (
            _with(**{"ids.1": np.array([[-1, 1], [8, 3]])}),
            "rank 1, token 0: expected experts 0 to 7, found -1",
        ),
        (
            _with(**{"ids.3": np.array([[0, 1], [5, 5]])}),
            "rank 3, token 1: expected 2 different experts, found 5 twice",
        ),
        (
            _with(**{"ids.0": np.array([[0, 1, 2]])}),
            "rank 0: expected ids of shape [at most 64 tokens, 2], found [1, 3]",
        ),
        (_with(**{"ids.0": np.zeros((2, 2))}), "ids.0: expected integers, found float64"),
        (
            _with(**{"ids.3": None}),
            "expected an array 'ids.3' for rank 3, found ids.0, ids.1, ids.2",
        ),
        (
            _with(**{"ids.4": np.zeros((1, 2), int)}),
            "expected arrays ids.R and gate.R for ranks 0 to 3, found ids.4",
        ),
        (
            _with(**{"gate.1": np.ones((2, 1))}),
            "rank 1: expected gates of shape [2, 2], found [2, 1]",
        ),
        (
            _with(**{"gate.1": np.ones((2, 2), int)}),
            "rank 1: expected gates to be floats, found int64",
        ),
        (
            _with(**{"gate.1": np.array([[1.0, 0.5], [np.nan, 0.5]])}),
            "rank 1, token 1: expected finite gates, found nan",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, arrays: dict[str, Any], message: str):
    path = tmp_path / "routing.npz"
    np.savez(path, **arrays)
    with pytest.raises(RoutingError) as e:
        read_routing(path, LAYER)
    assert str(e.value) == f"{path}: {message}"


def test_files_that_are_none_are_refused(tmp_path: Path):
    missing, text = tmp_path / "missing.npz", tmp_path / "text.npz"
    text.write_text("not an archive")
    for path, message in [
        (missing, "no such file"),
        (text, "expected a .npz file, found one that can't be read: File is not a zip file"),
    ]:
        with pytest.raises(RoutingError) as e:
            read_routing(path, LAYER)
        assert str(e.value) == f"{path}: {message}"


def test_token_counts_of_a_file_must_fit(tmp_path: Path):
    path = tmp_path / "routing.npz"
    np.savez(path, **_with())
    with pytest.raises(RoutingError) as e:
        generate_routing(parse_routing(str(path)), LAYER, [2, 2, 2, 3], seed=0)
    assert str(e.value) == f"{path}: expected [2, 2, 2, 3] tokens per rank, found [2, 2, 2, 2]"


def test_more_rows_than_the_capacity_are_refused():
    ids = [rank.ids for rank in generate_routing(parse_routing("one-expert"), LAYER, COUNTS, 0)]
    check_capacity(LAYER, ids)
    check_capacity(LAYER.with_sizes(capacity=208), ids)
    with pytest.raises(RoutingError) as e:
        check_capacity(LAYER.with_sizes(capacity=207), ids)
    assert str(e.value) == (
        "rank 0: expected at most 207 rows to receive (the capacity), found 208"
    )


def test_routing_of_a_rank_is_plain_data():
    rank = RankRouting(np.zeros((0, 2), np.int32), np.zeros((0, 2), np.float32))
    assert received_rows(LAYER, [rank.ids] * 4) == [0, 0, 0, 0]


@pytest.mark.parametrize("shape", ["(99999999999, 2)", "(-1, 2)", "(6, "])
def test_headers_of_arrays_that_are_not_there_are_refused(tmp_path: Path, shape: str):
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}".encode()
    path = tmp_path / "routing.npz"
    with zipfile.ZipFile(path, "w") as file:
        length = len(header).to_bytes(2, "little")
        file.writestr("ids.0.npy", b"\x93NUMPY\x01\x00" + length + header + bytes(48))
    with pytest.raises(RoutingError, match=r"found one that can't be read: an array "):
        read_routing(path, LAYER)
