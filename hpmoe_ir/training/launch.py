"""Launches of a layer's kernels on the CPU model, all ranks in one process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dialects.tile import program_signature
from hpmoe_ir.driver.compiler import CompiledKernel
from hpmoe_ir.dtypes import RawArray
from hpmoe_ir.layer.routing import check_ids
from hpmoe_ir.run.directions import DOWN, GATE, IDS, TOKENS, UP
from hpmoe_ir.run.execution import RankInputs, run_program
from hpmoe_ir.run.levels import check_status
from hpmoe_ir.training.arrays import (
    RankAccumulators,
    RankGradients,
    RankInput,
    RankOutput,
    Raw,
)
from hpmoe_ir.training.compiled import CompiledExperts


class Launcher(Protocol):
    """Runs the kernels of a layer for the ranks that this process holds."""

    @property
    def held(self) -> int:
        """Number of ranks whose inputs this process has."""
        ...

    def forward(self, inputs: Sequence[RankInput]) -> list[RankOutput]:
        """Runs the forward kernel; returns the results of each rank held.

        Raises RoutingError for an invalid expert, CapacityError, with the rank and its rows, if a
        rank would receive more rows than its capacity.
        """
        ...

    def backward(
        self,
        inputs: Sequence[RankInput],
        saved: Sequence[tuple[Raw, ...]],
        dout: Sequence[RawArray],
        accumulators: Sequence[RankAccumulators] | None = None,
    ) -> list[RankGradients]:
        """Runs the backward kernel on what the forward kernel saved; returns each rank's gradients.

        `dout[r]` [n, H] is the gradient of the output, raw memory of the kernels' element type.
        `accumulators` are needed by kernels that accumulate.
        """
        ...

    def refuse(self, message: str) -> None:
        """Says that this process has inputs that it can't launch, so that no other waits for it."""
        ...

    def close(self) -> None:
        """Frees what the launches need; later ones are refused."""
        ...


class LauncherClosed(RuntimeError):
    """A launch after `close`."""


@dataclass(frozen=True)
class _Kernel:
    """A kernel with its executable, and its arguments and results: buffers and roles, in order."""

    kernel: CompiledKernel
    executable: Path
    arguments: tuple[tuple[str, Role | None], ...]
    results: tuple[tuple[str, Role | None], ...]

    @classmethod
    def of(cls, kernel: CompiledKernel, executable: Path) -> _Kernel:
        signature = program_signature(kernel.program.op)
        arguments = tuple((p.buffer, p.role) for p in signature.arguments)
        results = tuple((p.buffer, p.role) for p in signature.results)
        return cls(kernel, executable, arguments, results)

    @property
    def saved(self) -> tuple[str, ...]:
        """Result buffers that the backward kernel needs, in order."""
        return tuple(buffer for buffer, role in self.results if role == Role(RoleKind.SAVED))

    def result(self, role: Role) -> str:
        """Returns the result buffer with a role."""
        return next(buffer for buffer, own in self.results if own == role)


class StackedLauncher:
    """Runs all ranks of a layer in this process, one run of the CPU model for each launch."""

    def __init__(self, experts: CompiledExperts) -> None:
        """Builds the kernels. Raises CompilerMissing, CompileError, InputError."""
        self.experts = experts
        forward, backward = experts.executables()
        self._forward = _Kernel.of(experts.forward, forward)
        self._backward = _Kernel.of(experts.backward, backward)
        self._closed = False

    @property
    def held(self) -> int:
        """Number of ranks whose inputs this process has: all."""
        return self.experts.config.ranks

    def forward(self, inputs: Sequence[RankInput]) -> list[RankOutput]:
        """Runs the forward kernel, see `Launcher.forward`."""
        self._check(inputs)
        roles = [_layer_arrays(own) for own in inputs]
        found = self._run(self._forward, roles, inputs)
        names = self._forward.saved
        out = self._forward.result(Role(RoleKind.OUTPUT))
        return [RankOutput(own[out], tuple(own[name] for name in names)) for own in found]

    def backward(
        self,
        inputs: Sequence[RankInput],
        saved: Sequence[tuple[Raw, ...]],
        dout: Sequence[RawArray],
        accumulators: Sequence[RankAccumulators] | None = None,
    ) -> list[RankGradients]:
        """Runs the backward kernel, see `Launcher.backward`."""
        forward, backward = self._forward, self._backward
        arguments = [role for _, role in forward.arguments]
        results = [buffer for buffer, _ in forward.results]
        output = results.index(forward.result(Role(RoleKind.OUTPUT)))
        places = [results.index(name) for name in forward.saved]
        up, down = arguments.index(UP), arguments.index(DOWN)
        roles: list[dict[Role, Raw]] = []
        for rank, own in enumerate(inputs):
            arrays = _layer_arrays(own)
            given = {
                Role(RoleKind.ARGUMENT, i): arrays[role]
                for i, role in enumerate(arguments)
                if role is not None
            }
            given[Role(RoleKind.RESULT_GRADIENT, output)] = dout[rank]
            for place, array in zip(places, saved[rank], strict=True):
                given[Role(RoleKind.RESULT, place)] = array
            if accumulators is not None:
                given[Role(RoleKind.ACCUMULATOR, up)] = accumulators[rank].dw13
                given[Role(RoleKind.ACCUMULATOR, down)] = accumulators[rank].dw2
            roles.append(given)
        found = self._run(backward, roles, inputs)

        def gradient(of: Role) -> str:
            return backward.result(Role(RoleKind.ARGUMENT_GRADIENT, arguments.index(of)))

        dx, dgate, dw13, dw2 = (gradient(of) for of in (TOKENS, GATE, UP, DOWN))
        return [
            RankGradients(
                own[dx],
                own[dgate].view(np.float32),
                own[dw13].view(np.float32),
                own[dw2].view(np.float32),
            )
            for own in found
        ]

    def refuse(self, message: str) -> None:
        """Does nothing: no other process waits."""

    def close(self) -> None:
        """Refuses later launches: between launches, the CPU model holds nothing."""
        self._closed = True

    def _check(self, inputs: Sequence[RankInput]) -> None:
        for rank, own in enumerate(inputs):
            check_ids(self.experts.config, rank, own.routing.ids)

    def _run(
        self,
        kernel: _Kernel,
        roles: Sequence[Mapping[Role, Raw]],
        inputs: Sequence[RankInput],
    ) -> list[dict[str, Raw]]:
        """Runs a kernel on arrays by role; returns the results of each rank by buffer."""
        if self._closed:
            raise LauncherClosed("expected a launch before close(), found one after it")
        launch = [
            RankInputs(
                {buffer: arrays[role] for buffer, role in kernel.arguments if role is not None},
                len(own.x),
            )
            for arrays, own in zip(roles, inputs, strict=True)
        ]
        # The detectors of order find faults of a kernel, not of its inputs.
        (found,) = run_program(
            kernel.kernel.program, kernel.executable, kernel.kernel.table, [launch], checks=False
        )
        status = kernel.result(Role(RoleKind.STATUS))
        check_status([own[status] for own in found])
        return found


def _layer_arrays(own: RankInput) -> dict[Role, Raw]:
    return {
        TOKENS: own.x,
        IDS: own.routing.ids,
        GATE: own.routing.gates,
        UP: own.w13,
        DOWN: own.w2,
    }
