"""Replacement of the grouped experts of a model by `HpMoeExperts`."""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import mindspore as ms
from mindspore import Parameter, Tensor, nn

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.frontends.mindir import parse_mindir
from hpmoe_ir.frontends.mindspore_exporter import mindir
from hpmoe_ir.frontends.mindspore_graph import import_graph
from hpmoe_ir.mindspore.experts import HpMoeExperts

CONFIG_FIELDS = {
    "hidden": "hidden_size",
    "width": "moe_ffn_hidden_size",
    "experts": "num_moe_experts",
    "top_k": "moe_router_topk",
}
"""Fields of MindFormers' configuration of a layer that have the sizes of its experts."""

CHECKED_TOKENS = 8
"""Tokens of the graph by which experts are recognised."""


class ReplacedExperts(HpMoeExperts):
    """`HpMoeExperts` with the arguments of MindFormers' experts.

    `construct(tokens, probs, routing_map)` takes tokens [dp, N, H], router weights and expert ids
    [dp, N, K].
    """

    def construct(self, tokens, probs, routing_map):
        """Returns the weighted sum of each token's experts, in the shape and type of tokens."""
        return self.weighted_sum(tokens, routing_map, probs, None)


@dataclass(frozen=True)
class _Sizes:
    kind: type[nn.Cell]
    hidden: int
    width: int
    experts: int
    top_k: int


def replace_experts(model: nn.Cell, *, tokens: int, **options: Any) -> nn.Cell:
    """Replaces all grouped experts in `model` by generated kernels, and returns the model.

    Grouped experts are cells of MindFormers' form: called `experts` with tokens, router weights and
    ids, with parameters `weight1` [E * H, 2 I] and `weight2` [E * I, H] and a `config`. The graph
    of each is imported first, so that only experts are replaced that compute what the kernels do: a
    grouped matmul, silu of the first half times the second, a grouped matmul, the weighted sum.
    The new cells have the names, the values and the types of the parameters.

    tokens: largest number of tokens of a rank. options: other arguments of `HpMoeExperts`. Raises
    InputError, naming the cell, if there are no experts or some that compute something else; the
    model is then unchanged.
    """
    found = list(_grouped_experts(model))
    if not found:
        raise InputError(
            "replace_experts: expected cells named 'experts' with parameters weight1 and weight2, "
            "found none"
        )
    recognised: set[_Sizes] = set()
    new: list[tuple[Any, Any, ReplacedExperts]] = []
    for name, parent, cell in found:
        sizes = _sizes(name, cell)
        if sizes not in recognised:
            _recognise(name, cell, sizes)
            recognised.add(sizes)
        experts = ReplacedExperts(
            sizes.hidden,
            sizes.width,
            sizes.experts,
            sizes.top_k,
            tokens,
            param_dtype=cell.weight1.dtype,
            **options,
        )
        for own, old in ((experts.weight1, cell.weight1), (experts.weight2, cell.weight2)):
            _take(name, own, old)
        new.append((parent, cell, experts))
    for parent, cell, experts in new:
        names = cell.weight1.name, cell.weight2.name
        # A cell renames the parameters of what is assigned to it.
        parent.experts = experts
        experts.weight1.name, experts.weight2.name = names
    return model


def _grouped_experts(model: nn.Cell) -> Iterator[tuple[str, nn.Cell, Any]]:
    """Yields the name, the parent and the cell of all grouped experts."""
    for name, parent in model.cells_and_names():
        cell = getattr(parent, "experts", None)
        if not isinstance(cell, nn.Cell) or isinstance(cell, HpMoeExperts):
            continue
        weights = [getattr(cell, key, None) for key in ("weight1", "weight2")]
        if all(isinstance(weight, Parameter) for weight in weights):
            yield f"{name}.experts" if name else "experts", parent, cell


def _sizes(name: str, cell: Any) -> _Sizes:
    config = getattr(cell, "config", None)
    found = {key: getattr(config, field, None) for key, field in CONFIG_FIELDS.items()}
    for key, value in found.items():
        if not isinstance(value, int):
            raise InputError(
                f"replace_experts: {name}: expected an integer config.{CONFIG_FIELDS[key]}, found "
                f"{value!r}"
            )
    sizes: dict[str, Any] = found
    return _Sizes(type(cell), **sizes)


def _recognise(name: str, cell: Any, sizes: _Sizes) -> None:
    """Checks by the importer what experts compute. Raises InputError."""
    dtype = getattr(cell, "compute_dtype", cell.weight1.dtype)
    lead = (1, CHECKED_TOKENS)
    inputs = [
        Tensor(shape=(*lead, sizes.hidden), dtype=dtype),
        Tensor(shape=(*lead, sizes.top_k), dtype=ms.float32),
        Tensor(shape=(*lead, sizes.top_k), dtype=ms.int32),
    ]
    mode = ms.get_context("mode")
    try:
        ms.set_context(mode=ms.GRAPH_MODE)
        data = mindir(cell, inputs)
    except Exception as e:
        first = next((line for line in str(e).splitlines() if line.strip()), type(e).__name__)
        raise InputError(f"replace_experts: {name}: MindSpore can't compile it: {first}") from e
    finally:
        ms.set_context(mode=mode)
    layer = import_graph(parse_mindir(data, name), name=name)
    config = layer.config
    own = (config.hidden, config.width, config.experts, config.top_k)
    expected = (sizes.hidden, sizes.width, sizes.experts, sizes.top_k)
    if own != expected:
        raise InputError(
            f"replace_experts: {name}: its configuration has hidden, width, experts and top k of "
            f"{expected}, its graph {own}"
        )


def _take(name: str, own: Parameter, old: Parameter) -> None:
    """Gives a parameter the value of another one. Raises InputError."""
    if own.shape != old.shape:
        raise InputError(
            f"replace_experts: {name}: expected {old.name} of shape {own.shape}, found {old.shape}"
        )
    own.set_data(Tensor(old.asnumpy(), old.dtype))
    own.requires_grad = old.requires_grad
