"""Reductions of a run that `hpmoe run --shrink` tries.

All sizes of a preset can be reduced. The sizes of a graph are fixed by its types, and in a compiled
directory the passes are fixed as well, so that only launches, tokens, routing and direction remain.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

from hpmoe_ir.driver.compiled_files import read_compiled
from hpmoe_ir.driver.source import make_context, read_module
from hpmoe_ir.layer.config import MATRIX_BLOCK, LayerConfig
from hpmoe_ir.options.options import spec_of
from hpmoe_ir.options.text import Spec, Value
from hpmoe_ir.passes.pipeline import LowerMoePass
from hpmoe_ir.run.module_layer import module_layer
from hpmoe_ir.run.shrink import smaller_numbers
from hpmoe_ir.tools.command_line import changed
from hpmoe_ir.tools.layer_input import layer_input
from hpmoe_ir.tools.layer_options import layer_of, passes_of
from hpmoe_ir.tools.run_failure import RunFailure
from hpmoe_ir.tools.run_orders import late_ranks
from hpmoe_ir.tools.run_values import rank_tokens

Args: TypeAlias = argparse.Namespace
Direction: TypeAlias = Callable[[Args], Iterable[Args]]

LEAPS = ((1, 1, 1), (2, 1, 1), (2, 2, 2))
"""Combinations (ranks, local experts, tokens) that are tried first."""


def layer_config(args: Args) -> LayerConfig:
    """Returns the configuration of the layer of a run. Raises InputError."""
    if args.preset is not None:
        return layer_of(args)
    path = Path(args.graph)
    if not os.path.isdir(path):
        return module_layer(read_module(make_context(), path)).config
    compiled, _ = read_compiled(make_context(), path, args.edited_code)
    return module_layer(compiled.graph or compiled.modules[compiled.level]).config


def _has_passes(args: Args) -> bool:
    """Whether the passes of a run are all known from its options."""
    if args.preset is not None or args.passes is not None:
        return args.graph is None or not os.path.isdir(args.graph)
    if os.path.isdir(args.graph):
        return False
    source = layer_input(make_context(), args)
    return source.level == "moe" and not source.recorded


def directions_of(args: Args, failure: RunFailure) -> list[Direction]:
    """Returns the reductions for a failed run, the most informative first."""
    least: list[Direction] = [
        lambda a: _without_check(a, failure),
        lambda a: _one_direction(a, failure),
        _fewer_launches,
    ]
    if args.preset is not None:
        least += [_leaps, _fewer_ranks, _fewer_experts, _smaller_top_k]
    least += [_fewer_late, _plain_routing, _fewer_tokens]
    if args.preset is not None:
        least += [_narrower, _plain_sizes]
    if _has_passes(args):
        least += [_fewer_passes]
    return [*least, _plain_seed]


def fixed_sizes(args: Args) -> str:
    """Returns a note on fixed sizes; empty for a preset."""
    if args.preset is not None:
        return ""
    if os.path.isdir(args.graph):
        return "the layer is compiled already: only launches, tokens and routing become smaller"
    return (
        "the sizes of a graph are in its types: only launches, tokens, routing and options of "
        "passes become smaller"
    )


def _without_check(args: Args, failure: RunFailure) -> Iterator[Args]:
    if args.check and failure.kind not in ("check", "gradients"):
        yield changed(args, check=False)


def _one_direction(args: Args, failure: RunFailure) -> Iterator[Args]:
    """Forward only, unless the backward function fails; else backward, which runs both."""
    if args.direction == "forward":
        return
    if failure.direction != "backward":
        yield changed(args, direction="forward", recompute="")
    if args.direction == "both":
        yield changed(args, direction="backward")


def _fewer_launches(args: Args) -> Iterator[Args]:
    for n in smaller_numbers(args.launches, 1):
        yield changed(args, launches=n)


def _sized(args: Args, ranks: int, local: int, top_k: int, tokens: list[int]) -> Args:
    """Returns the run with other sizes; top k is limited to the number of experts."""
    experts = ranks * local
    return changed(
        args,
        ranks=ranks,
        experts=experts,
        top_k=min(top_k, experts),
        tokens=_token_text(tokens),
        capacity=None,
        late=_late_text(min(rank, ranks - 1) for rank in late_ranks(args)),
    )


def _token_text(tokens: list[int]) -> str:
    same = len(set(tokens)) == 1
    return str(tokens[0]) if same else ",".join(str(t) for t in tokens)


def _leaps(args: Args) -> Iterator[Args]:
    config = layer_config(args)
    for ranks, local, tokens in LEAPS:
        if ranks <= config.ranks and local <= config.local_experts and tokens <= config.tokens:
            smallest = changed(
                args, routing="uniform", hidden=MATRIX_BLOCK, width=MATRIX_BLOCK, launches=1
            )
            yield _sized(smallest, ranks, local, 1, [tokens] * ranks)


def _fewer_ranks(args: Args) -> Iterator[Args]:
    config = layer_config(args)
    tokens = rank_tokens(args, config)
    for ranks in smaller_numbers(config.ranks, 1):
        kept = tokens[:ranks] if any(tokens[:ranks]) else [max(tokens)] * ranks
        yield _sized(args, ranks, config.local_experts, config.top_k, kept)
        if config.experts % ranks == 0:
            yield _sized(args, ranks, config.experts // ranks, config.top_k, kept)


def _fewer_experts(args: Args) -> Iterator[Args]:
    config = layer_config(args)
    for local in smaller_numbers(config.local_experts, 1):
        yield _sized(args, config.ranks, local, config.top_k, rank_tokens(args, config))


def _smaller_top_k(args: Args) -> Iterator[Args]:
    config = layer_config(args)
    for top_k in smaller_numbers(config.top_k, 1):
        yield changed(args, top_k=top_k, capacity=None)


def _plain_routing(args: Args) -> Iterator[Args]:
    if args.routing != "uniform":
        tokens = rank_tokens(args, layer_config(args))
        yield changed(args, routing="uniform", tokens=_token_text(tokens))


def _fewer_tokens(args: Args) -> Iterator[Args]:
    tokens = rank_tokens(args, layer_config(args))
    for most in smaller_numbers(max(tokens), 1):
        yield changed(args, tokens=_token_text([min(t, most) for t in tokens]))
    for rank, own in enumerate(tokens):
        for n in smaller_numbers(own, 0):
            fewer = [*tokens[:rank], n, *tokens[rank + 1 :]]
            if any(fewer):
                yield changed(args, tokens=_token_text(fewer))


def _narrower(args: Args) -> Iterator[Args]:
    config = layer_config(args)
    for hidden in smaller_numbers(config.hidden, MATRIX_BLOCK, MATRIX_BLOCK):
        yield changed(args, hidden=hidden)
    for width in smaller_numbers(config.width, MATRIX_BLOCK, MATRIX_BLOCK):
        yield changed(args, width=width)


def _plain_sizes(args: Args) -> Iterator[Args]:
    for name in ("capacity", "dtype"):
        if getattr(args, name) is not None:
            yield changed(args, **{name: None})


def _fewer_late(args: Args) -> Iterator[Args]:
    """No late ranks, or one fewer."""
    if args.late is None:
        return
    yield changed(args, late=None)
    late = late_ranks(args)
    if len(late) > 1:
        for rank in late:
            yield changed(args, late=_late_text([r for r in late if r != rank]))


def _late_text(ranks: Iterable[int]) -> str | None:
    return ",".join(str(rank) for rank in sorted(set(ranks))) or None


def _fewer_passes(args: Args) -> Iterator[Args]:
    """Removes a pass or its options, or reduces integers in the options."""
    specs = tuple(spec_of(module_pass) for module_pass in passes_of(args))
    for i, spec in enumerate(specs):
        before, after = specs[:i], specs[i + 1 :]
        if spec.name != LowerMoePass.name and len(specs) > 1:
            yield _with_passes(args, [*before, *after])
        for less in _smaller_specs(spec):
            yield _with_passes(args, [*before, less, *after])
    if args.recompute:
        yield changed(args, recompute="")


def _smaller_specs(spec: Spec) -> Iterator[Spec]:
    """Removes all options or one of them, or reduces the value of one."""
    if spec.options:
        yield Spec(spec.name)
    for option, values in spec.options.items():
        yield Spec(spec.name, {k: v for k, v in spec.options.items() if k != option})
        if len(values) == 1:
            for less in _smaller_values(values[0]):
                yield Spec(spec.name, {**spec.options, option: (less,)})


def _smaller_values(value: Value) -> Iterator[Value]:
    if isinstance(value, Spec):
        yield from _smaller_specs(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        yield from smaller_numbers(value, 1)


def _with_passes(args: Args, specs: Iterable[Spec]) -> Args:
    passes = ",".join(str(spec) for spec in specs)
    return changed(
        args, passes=passes, schedule=None, machine=None, links=None, allow_over_memory=False
    )


def _plain_seed(args: Args) -> Iterator[Args]:
    if args.seed != 0:
        yield changed(args, seed=0)
