"""Routings of a layer: the experts of each token and their router weights.

A routing is written `balanced`, `uniform`, `zipf:S`, `imbalance:X`, `one-expert` or as the name of
a `.npz` file. The file has the array `ids.R` (int32 [tokens, top_k]) and optionally `gate.R`
(float32, same shape) for each rank R.
"""

from __future__ import annotations

import difflib
import math
import tokenize
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np

from hpmoe_ir.diagnostics import one_line
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.layer.imbalanced_routing import imbalanced_ids, max_imbalance

IdArray: TypeAlias = np.ndarray[Any, np.dtype[np.int32]]
GateArray: TypeAlias = np.ndarray[Any, np.dtype[np.float32]]
Kind: TypeAlias = Literal["balanced", "uniform", "zipf", "imbalance", "one-expert", "file"]

KINDS = ("balanced", "uniform", "zipf:S", "imbalance:X", "one-expert", "FILE.npz")
"""All spellings of a routing, as messages list them."""

MAX_ARRAY_BYTES = 1 << 30
"""Largest array of a routing file, 128 million int64 ids; a small file may claim any size."""


class RoutingError(ValueError):
    """An unreadable routing, or one that does not fit the layer."""


@dataclass(frozen=True)
class RoutingSpec:
    """A kind of routing: a rule with its parameter, or a file.

    `str` is the spelling that `parse_routing` reads.
    """

    kind: Kind
    exponent: float = 0.0
    """zipf: the i-th most popular expert has a probability proportional to i^-exponent."""
    imbalance: float = 1.0
    """imbalance: rows that one rank receives, over the mean of all ranks."""
    path: Path | None = None

    def __str__(self) -> str:
        if self.kind == "zipf":
            return f"zipf:{self.exponent:g}"
        if self.kind == "imbalance":
            return f"imbalance:{self.imbalance:g}"
        return str(self.path) if self.path is not None else self.kind


@dataclass(frozen=True)
class RankRouting:
    """Routing of one rank's tokens: `ids` int32 [t, K] global experts, `gates` float32 [t, K]."""

    ids: IdArray
    gates: GateArray


def parse_routing(text: str) -> RoutingSpec:
    """Returns the routing spelled `text`. Raises RoutingError for an unknown one."""
    if text.endswith(".npz"):
        return RoutingSpec("file", path=Path(text))
    match text:
        case "balanced" | "uniform" | "one-expert":
            return RoutingSpec(text)
        case _:
            pass
    name, colon, number = text.partition(":")
    if name == "zipf":
        return RoutingSpec("zipf", exponent=_number(text, "zipf:S", number if colon else "", 0))
    if name == "imbalance":
        imbalance = _number(text, "imbalance:X", number if colon else "", 1)
        return RoutingSpec("imbalance", imbalance=imbalance)
    names = ["balanced", "uniform", "zipf", "imbalance", "one-expert"]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean '{near[0]}'?" if near else ""
    raise RoutingError(f"unknown routing '{text}'; known: {', '.join(KINDS)}{hint}")


def _number(text: str, form: str, number: str, least: int) -> float:
    """Parses the number of a routing such as `zipf:S`. Raises RoutingError below `least`."""
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= least):
        letter = form[-1]
        raise RoutingError(
            f"routing '{text}': expected {form} with a number {letter} >= {least}, "
            f"found {letter} = '{number}'"
        )
    return value


def generate_routing(
    spec: RoutingSpec, config: LayerConfig, tokens: Sequence[int], seed: int
) -> list[RankRouting]:
    """Returns the routing of `tokens[r]` tokens for each rank r; deterministic in all arguments.

    The experts of a token are distinct. Its router weights are positive, sum to 1 if there are
    several, and lie within a factor of two of each other, so that a missing expert is never hidden
    by the tolerance. Raises RoutingError if the routing does not fit the layer; the capacity is
    checked by `check_capacity`.
    """
    check_tokens(config, tokens)
    if spec.path is not None:
        routing = read_routing(spec.path, config, seed)
        counts = [rank.ids.shape[0] for rank in routing]
        if counts != list(tokens):
            raise RoutingError(
                f"{spec.path}: expected {list(tokens)} tokens per rank, found {counts}"
            )
        return routing
    rng = np.random.default_rng([seed, 0x726F])
    shuffled = rng.permutation(config.experts)
    if spec.kind == "imbalance":
        _check_imbalance(config, spec.imbalance)
    first = 0
    result: list[RankRouting] = []
    for count in tokens:
        match spec.kind:
            case "balanced":
                ids = _balanced(rng, shuffled, first, count, config)
            case "imbalance":
                ids = imbalanced_ids(rng, shuffled, first, count, config, spec.imbalance)
            case "one-expert":
                ids = np.tile(np.arange(config.top_k), (count, 1))
            case _:
                ids = _drawn(rng, shuffled, count, config, spec.exponent)
        first += count
        result.append(RankRouting(ids.astype(np.int32), _gates(rng, count, config.top_k)))
    return result


def _check_imbalance(config: LayerConfig, imbalance: float) -> None:
    """Raises RoutingError if one rank can't receive `imbalance` times the mean number of rows."""
    limit = max_imbalance(config)
    if imbalance > limit:
        raise RoutingError(
            f"imbalance: expected at most {limit:g} times the mean, when every token chooses "
            f"{min(config.top_k, config.local_experts)} experts of one rank, found {imbalance:g}"
        )


def check_tokens(config: LayerConfig, tokens: Sequence[int]) -> None:
    """Raises RoutingError unless `tokens` has one count of 0 to T for each rank."""
    if len(tokens) != config.ranks:
        raise RoutingError(
            f"tokens: expected {config.ranks} counts, one for each rank, found {len(tokens)}"
        )
    for rank, count in enumerate(tokens):
        if not 0 <= count <= config.tokens:
            raise RoutingError(
                f"tokens: rank {rank}: expected 0 to {config.tokens} tokens, found {count}"
            )


def _balanced(
    rng: np.random.Generator,
    shuffled: np.ndarray[Any, Any],
    first: int,
    count: int,
    config: LayerConfig,
) -> np.ndarray[Any, Any]:
    """Assigns the experts round robin over the tokens of all ranks."""
    pairs = np.arange(first, first + count)[:, None] * config.top_k + np.arange(config.top_k)
    return rng.permutation(shuffled[pairs % config.experts], axis=0)


def _drawn(
    rng: np.random.Generator,
    shuffled: np.ndarray[Any, Any],
    count: int,
    config: LayerConfig,
    exponent: float,
) -> np.ndarray[Any, Any]:
    """Draws K experts without replacement: the K largest of log-weight plus Gumbel noise."""
    weight = -exponent * np.log(np.arange(1, config.experts + 1))
    keys = weight + rng.gumbel(size=(count, config.experts))
    best = np.argpartition(-keys, config.top_k - 1, axis=1)[:, : config.top_k]
    order = np.argsort(-np.take_along_axis(keys, best, axis=1), axis=1)
    return shuffled[np.take_along_axis(best, order, axis=1)]


def _gates(rng: np.random.Generator, count: int, top_k: int) -> GateArray:
    gates = rng.uniform(0.5, 1.0, size=(count, top_k))
    if top_k > 1:
        gates /= gates.sum(axis=1, keepdims=True)
    return gates.astype(np.float32)


def read_routing(path: Path, config: LayerConfig, seed: int = 0) -> list[RankRouting]:
    """Reads the routing of all ranks from a `.npz` file; missing router weights are drawn.

    Raises RoutingError with the file, the rank, the token and the invalid value.
    """
    arrays = _read_arrays(path)
    rng = np.random.default_rng([seed, 0x6761])
    result: list[RankRouting] = []
    for rank in range(config.ranks):
        if f"ids.{rank}" not in arrays:
            found = ", ".join(sorted(arrays)) or "nothing"
            raise RoutingError(
                f"{path}: expected an array 'ids.{rank}' for rank {rank}, found {found}"
            )
        ids = arrays[f"ids.{rank}"]
        if not np.issubdtype(ids.dtype, np.integer):
            raise RoutingError(f"{path}: ids.{rank}: expected integers, found {ids.dtype}")
        gates = arrays.get(f"gate.{rank}")
        if gates is None:
            gates = _gates(rng, ids.shape[0] if ids.ndim else 0, config.top_k)
        try:
            check_ids(config, rank, ids)
            check_gates(rank, ids, gates)
        except RoutingError as e:
            raise RoutingError(f"{path}: {e}") from e
        result.append(RankRouting(ids.astype(np.int32), gates.astype(np.float32)))
    known = {f"{what}.{rank}" for what in ("ids", "gate") for rank in range(config.ranks)}
    if unknown := sorted(set(arrays) - known):
        raise RoutingError(
            f"{path}: expected arrays ids.R and gate.R for ranks 0 to {config.ranks - 1}, "
            f"found {unknown[0]}"
        )
    return result


def _read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Reads the arrays of a `.npz` file by name.

    The file must contain all bytes of an array: nothing is allocated for a header alone.
    """
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    try:
        with zipfile.ZipFile(path) as file:
            for member in file.infolist():
                name = member.filename.removesuffix(".npy")
                if member.file_size > MAX_ARRAY_BYTES:
                    raise RoutingError(
                        f"{path}: {name}: expected at most {MAX_ARRAY_BYTES} bytes, found "
                        f"{member.file_size}"
                    )
                arrays[name] = _read_array(file.read(member))
    except FileNotFoundError as e:
        raise RoutingError(f"{path}: no such file") from e
    except RoutingError:
        raise
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error, EOFError) as e:
        # zipfile reports an unknown compression by a subclass of RuntimeError.
        raise RoutingError(
            f"{path}: expected a .npz file, found one that can't be read: {one_line(str(e))}"
        ) from e
    return arrays


def _read_array(data: bytes) -> np.ndarray[Any, Any]:
    """Parses the bytes of a `.npy` file. Raises ValueError."""
    stream = BytesIO(data)
    formats = cast(Any, np.lib.format)  # has no types in NumPy's stubs
    try:
        version = formats.read_magic(stream)
        read = formats.read_array_header_1_0 if version == (1, 0) else formats.read_array_header_2_0
        shape, fortran, dtype = cast(tuple[tuple[int, ...], bool, np.dtype[Any]], read(stream))
    except (SyntaxError, tokenize.TokenError, RecursionError, TypeError) as e:
        # NumPy parses the header as Python.
        raise ValueError(f"an array with a broken header: {e}") from e
    rest = data[stream.tell() :]
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError(f"an array of {dtype} {list(shape)}")
    if len(rest) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"an array of {dtype} {list(shape)} in {len(rest)} bytes")
    if not rest:
        return np.zeros(shape, dtype)
    return np.frombuffer(rest, dtype).reshape(shape, order="F" if fortran else "C")


def write_routing(path: Path, routing: Sequence[RankRouting]) -> None:
    """Writes a `.npz` file that `read_routing` reads."""
    arrays: dict[str, Any] = {f"ids.{rank}": r.ids for rank, r in enumerate(routing)}
    arrays |= {f"gate.{rank}": r.gates for rank, r in enumerate(routing)}
    np.savez(path, **arrays)


def check_ids(config: LayerConfig, rank: int, ids: np.ndarray[Any, Any]) -> None:
    """Raises RoutingError for the first token with an expert that is out of range or repeated."""
    if ids.ndim != 2 or ids.shape[1] != config.top_k or ids.shape[0] > config.tokens:
        raise RoutingError(
            f"rank {rank}: expected ids of shape [at most {config.tokens} tokens, "
            f"{config.top_k}], found {list(ids.shape)}"
        )
    outside = np.argwhere((ids < 0) | (ids >= config.experts))
    if outside.size:
        token, k = outside[0]
        raise RoutingError(
            f"rank {rank}, token {token}: expected experts 0 to {config.experts - 1}, "
            f"found {ids[token, k]}"
        )
    ordered = np.sort(ids, axis=1)
    repeated = np.argwhere(ordered[:, 1:] == ordered[:, :-1])
    if repeated.size:
        token, k = repeated[0]
        raise RoutingError(
            f"rank {rank}, token {token}: expected {config.top_k} different experts, "
            f"found {ordered[token, k]} twice"
        )


def check_gates(rank: int, ids: np.ndarray[Any, Any], gates: np.ndarray[Any, Any]) -> None:
    """Raises RoutingError unless there is one finite router weight for each id."""
    if gates.shape != ids.shape:
        raise RoutingError(
            f"rank {rank}: expected gates of shape {list(ids.shape)}, found {list(gates.shape)}"
        )
    if not np.issubdtype(gates.dtype, np.floating):
        raise RoutingError(f"rank {rank}: expected gates to be floats, found {gates.dtype}")
    wrong = np.argwhere(~np.isfinite(gates))
    if wrong.size:
        token, k = wrong[0]
        raise RoutingError(
            f"rank {rank}, token {token}: expected finite gates, found {gates[token, k]}"
        )


def received_rows(config: LayerConfig, ids: Sequence[np.ndarray[Any, Any]]) -> list[int]:
    """Returns the rows that each rank receives; `ids[r]` are the experts chosen on rank r."""
    experts = np.concatenate([np.asarray(part).reshape(-1) for part in ids])
    counts = np.bincount(experts // config.local_experts, minlength=config.ranks)
    return [int(count) for count in counts]


def check_capacity(config: LayerConfig, ids: Sequence[np.ndarray[Any, Any]]) -> None:
    """Raises RoutingError if a rank receives more rows than its receive buffer holds."""
    for rank, rows in enumerate(received_rows(config, ids)):
        if rows > config.receive_rows:
            raise RoutingError(
                f"rank {rank}: expected at most {config.receive_rows} rows to receive "
                f"(the capacity), found {rows}"
            )
