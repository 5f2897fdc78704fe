"""Launchers that modules of the same layer share, until the last of them is closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hpmoe_ir.dtypes import RawArray
from hpmoe_ir.training.arrays import (
    RankAccumulators,
    RankGradients,
    RankInput,
    RankOutput,
    Raw,
)
from hpmoe_ir.training.compiled import CompiledExperts, LayerRequest, compiled_experts
from hpmoe_ir.training.launch import Launcher, LauncherClosed, StackedLauncher


class SharedLauncher:
    """One module's use of a launcher."""

    def __init__(self, experts: CompiledExperts, launcher: Launcher) -> None:
        self.experts = experts
        self._launcher = launcher
        self._closed = False
        _users[id(launcher)] = _users.get(id(launcher), 0) + 1

    @property
    def launcher(self) -> Launcher:
        """The launcher that is shared. Raises LauncherClosed."""
        if self._closed:
            raise LauncherClosed("expected a call before close() of the module, found one after it")
        return self._launcher

    @property
    def held(self) -> int:
        """Number of ranks whose inputs this process has."""
        return self._launcher.held

    def forward(self, inputs: Sequence[RankInput]) -> list[RankOutput]:
        """Runs the forward kernel, see `Launcher.forward`."""
        return self.launcher.forward(inputs)

    def backward(
        self,
        inputs: Sequence[RankInput],
        saved: Sequence[tuple[Raw, ...]],
        dout: Sequence[RawArray],
        accumulators: Sequence[RankAccumulators] | None = None,
    ) -> list[RankGradients]:
        """Runs the backward kernel, see `Launcher.backward`."""
        return self.launcher.backward(inputs, saved, dout, accumulators)

    def refuse(self, message: str) -> None:
        """Says that this process can't launch, see `Launcher.refuse`."""
        self.launcher.refuse(message)

    def close(self) -> None:
        """Ends the module's use; the last one frees the launcher. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        _users[id(self._launcher)] -= 1
        if not _users[id(self._launcher)]:
            self._launcher.close()
            for key in [k for k, own in _launchers.items() if own is self._launcher]:
                del _launchers[key]


_launchers: dict[tuple[LayerRequest, str], Launcher] = {}
_users: dict[int, int] = {}


def shared_launcher(
    request: LayerRequest,
    group: str = "",
    make: Callable[[CompiledExperts], Launcher] = StackedLauncher,
) -> SharedLauncher:
    """Returns a use of the launcher of a layer, made once for equal requests of one group.

    `make` makes it, by default with all ranks in this process. Raises as `CompiledExperts` and
    `make`.
    """
    experts, key = compiled_experts(request), (request, group)
    if key not in _launchers:
        _launchers[key] = make(experts)
    return SharedLauncher(experts, _launchers[key])
