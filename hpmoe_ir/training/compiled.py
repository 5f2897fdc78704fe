"""Compiled kernels of both directions, shared by all modules of the same layer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.passes import ModulePass

from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dialects.tile import buffer_type, program_signature
from hpmoe_ir.driver.compiler import Compiled, CompiledKernel, compile_module
from hpmoe_ir.driver.source import make_context
from hpmoe_ir.driver.specs import passes_in
from hpmoe_ir.frontends.build_layer import FUNCTION, layer_module
from hpmoe_ir.layer.config import LayerConfig
from hpmoe_ir.machines.machine import load_machine
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.run.execution import build_program
from hpmoe_ir.run.signature import backward_of, signatures
from hpmoe_ir.runtime.cpu_build import content_digest
from hpmoe_ir.schedule.named import AUTO_SCHEDULE, find_schedule


@dataclass(frozen=True)
class LayerRequest:
    """What determines the kernels of a layer."""

    config: LayerConfig
    """Sizes that the kernels support."""
    schedule: str
    """Name of a schedule; `auto` selects one by timed runs and remembers it."""
    machine: str
    """Name of the machine that the kernels are for, or a TOML file."""
    recompute: tuple[str, ...] = ()
    """What the backward kernel recomputes, see `derive-backward`."""
    accumulate: bool = False
    """Whether gradients of weights are added to accumulators."""

    @property
    def backward(self) -> DeriveBackwardPass:
        """The pass that adds the gradients."""
        return DeriveBackwardPass(recompute=self.recompute, accumulate=self.accumulate)


class CompiledExperts:
    """The kernels of both directions of one layer, and how their arguments are bound.

    Raises InputError for a layer that can't be compiled, ScheduleError for an unknown schedule.
    """

    def __init__(self, request: LayerRequest) -> None:
        self.request = request
        self.compiled: Compiled = compile_module(
            make_context(),
            layer_module(request.config),
            _passes(request),
            backward=request.backward,
        )
        gradients = backward_of(signatures(self.compiled.modules["moe"]), FUNCTION)
        assert gradients is not None
        self.forward: CompiledKernel = self.compiled.kernels[FUNCTION]
        self.backward: CompiledKernel = self.compiled.kernels[gradients.name]
        kernels = self.compiled.kernels.items()
        self.digest: str = content_digest(
            part for name, kernel in kernels for part in (name, kernel.source, kernel.table)
        )
        """SHA-256 of both kernels and their task tables: what ranks of one group must share."""

    @property
    def config(self) -> LayerConfig:
        """The sizes of the kernels."""
        return self.request.config

    @property
    def saved_buffers(self) -> tuple[str, ...]:
        """Result buffers of the forward kernel that its backward kernel needs, in order."""
        results = program_signature(self.forward.program.op).results
        return tuple(p.buffer for p in results if p.role == Role(RoleKind.SAVED))

    @property
    def saved_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shape of each saved buffer of one rank: rows of the capacity, elements."""
        buffers = self.forward.program.buffers
        return tuple(buffer_type(buffers[name]).dims for name in self.saved_buffers)

    def executables(self) -> tuple[Path, Path]:
        """Builds both kernels for the CPU model, unless the cache has them."""
        forward, backward = (
            build_program(kernel.program, kernel.source) for kernel in (self.forward, self.backward)
        )
        return forward, backward


_known: dict[LayerRequest, CompiledExperts] = {}


def compiled_experts(request: LayerRequest) -> CompiledExperts:
    """Returns the kernels of a layer, compiled once in a process for equal requests.

    Built executables and the choice of `auto` are kept in the cache of built files. Raises as
    `CompiledExperts`.
    """
    if request not in _known:
        _known[request] = CompiledExperts(request)
    return _known[request]


def _passes(request: LayerRequest) -> tuple[ModulePass, ...]:
    machine = load_machine(request.machine)
    if request.schedule != AUTO_SCHEDULE:
        return find_schedule(request.schedule).passes(machine)
    from hpmoe_ir.schedule.candidates import Layer
    from hpmoe_ir.schedule.chosen import chosen_schedule

    layer = Layer(make_context(), layer_module(request.config), request.backward, machine)
    return tuple(passes_in(chosen_schedule(layer).pipeline))
