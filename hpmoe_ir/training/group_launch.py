"""Launches of a layer whose ranks are processes: they meet in one run of the CPU model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hpmoe_ir.diagnostics import InputError
from hpmoe_ir.dtypes import RawArray
from hpmoe_ir.layer.routing import RankRouting, RoutingError
from hpmoe_ir.run.levels import CapacityError
from hpmoe_ir.runtime.device_fault import DeviceFault
from hpmoe_ir.training.arrays import (
    RankAccumulators,
    RankGradients,
    RankInput,
    RankOutput,
    Raw,
)
from hpmoe_ir.training.compiled import CompiledExperts
from hpmoe_ir.training.launch import LauncherClosed, StackedLauncher
from hpmoe_ir.training.meeting import Meeting

FORWARD, BACKWARD = "forward", "backward"

ERRORS: dict[str, type[Exception]] = {kind.__name__: kind for kind in (CapacityError, RoutingError)}
"""Errors of one launch, which every rank raises; a later launch may be right."""


class GroupLauncher:
    """Runs a layer for the rank of this process, together with the other ranks of its group.

    Rank 0 receives the inputs of all ranks, runs the CPU model and returns the results. All ranks
    launch in the same order, as on the device.
    """

    def __init__(self, experts: CompiledExperts, meeting: Meeting) -> None:
        self.experts = experts
        self._meeting = meeting
        self._all = StackedLauncher(experts) if meeting.rank == 0 else None
        self._launches = 0
        self._closed = False

    @property
    def held(self) -> int:
        """Number of ranks whose inputs this process has."""
        return 1

    def forward(self, inputs: Sequence[RankInput]) -> list[RankOutput]:
        """Runs the forward kernel, see `Launcher.forward`. Raises GroupStoppedError as well."""
        arrays = self._launch(FORWARD, _input_arrays(inputs[0]))
        return [RankOutput(arrays["out"], _numbered("saved", arrays))]

    def backward(
        self,
        inputs: Sequence[RankInput],
        saved: Sequence[tuple[Raw, ...]],
        dout: Sequence[RawArray],
        accumulators: Sequence[RankAccumulators] | None = None,
    ) -> list[RankGradients]:
        """Runs the backward kernel, see `Launcher.backward`. Raises GroupStoppedError as well."""
        arrays = _input_arrays(inputs[0]) | {"dout": dout[0]}
        arrays |= {f"saved.{i}": array for i, array in enumerate(saved[0])}
        if accumulators is not None:
            arrays |= {"sum13": accumulators[0].dw13, "sum2": accumulators[0].dw2}
        found = self._launch(BACKWARD, arrays)
        return [RankGradients(found["dx"], found["dgate"], found["dw13"], found["dw2"])]

    def refuse(self, message: str) -> None:
        """Stops all ranks, since this one has inputs that it can't launch."""
        self._meeting.stop(f"rank {self._meeting.rank}: {message}")

    def close(self) -> None:
        """Refuses later launches on all ranks."""
        self._closed = True
        self._meeting.close()

    def _launch(self, direction: str, arrays: Mapping[str, Raw]) -> dict[str, Raw]:
        if self._closed:
            raise LauncherClosed("expected a launch before close(), found one after it")
        meeting = self._meeting
        meeting.check()
        self._launches += 1
        launch = f"launch-{self._launches}"
        what = f"{direction} launch {self._launches}"
        if self._all is None:
            meeting.put(f"{launch}-{meeting.rank}", {**arrays, direction: np.zeros(0, np.uint8)})
            found = meeting.take(f"{launch}-result-{meeting.rank}", 0, what, f"{launch}-runs")
            return _raised(found)
        given = [arrays]
        for rank in range(1, meeting.ranks):
            given.append(meeting.take(f"{launch}-{rank}", rank, what))
            if direction not in given[-1]:
                other = FORWARD if direction == BACKWARD else BACKWARD
                meeting.stop(f"rank 0 has {what}, rank {rank} {other}: expected one order")
        done = meeting.mark(f"{launch}-runs")
        results = self._run(self._all, direction, given)
        for rank in range(1, meeting.ranks):
            meeting.put(f"{launch}-result-{rank}", results[rank])
        done()
        return _raised(results[0])

    def _run(
        self, every: StackedLauncher, direction: str, given: Sequence[Mapping[str, Raw]]
    ) -> list[dict[str, Raw]]:
        """Runs a kernel for all ranks; an error that concerns one launch is a result too."""
        inputs = [_input_of(arrays) for arrays in given]
        try:
            if direction == FORWARD:
                return [_output_arrays(own) for own in every.forward(inputs)]
            saved = [_numbered("saved", arrays) for arrays in given]
            dout = [arrays["dout"] for arrays in given]
            sums = None
            if "sum13" in given[0]:
                sums = [RankAccumulators(a["sum13"], a["sum2"]) for a in given]
            return [_gradient_arrays(own) for own in every.backward(inputs, saved, dout, sums)]
        except (CapacityError, RoutingError) as e:
            return [{f"error {type(e).__name__}": _text(str(e))} for _ in given]
        except (DeviceFault, InputError) as e:
            self._meeting.stop(str(e))
            raise


def _raised(found: dict[str, Raw]) -> dict[str, Raw]:
    """Returns results; raises the error that they are."""
    for name, kind in ERRORS.items():
        if (message := found.get(f"error {name}")) is not None:
            raise kind(message.tobytes().decode())
    return found


def _text(message: str) -> Raw:
    return np.frombuffer(message.encode(), np.uint8)


def _input_arrays(own: RankInput) -> dict[str, Raw]:
    routing = own.routing
    return {"x": own.x, "ids": routing.ids, "gates": routing.gates, "w13": own.w13, "w2": own.w2}


def _input_of(arrays: Mapping[str, Raw]) -> RankInput:
    routing = RankRouting(arrays["ids"], arrays["gates"])
    return RankInput(arrays["x"], routing, arrays["w13"], arrays["w2"])


def _output_arrays(own: RankOutput) -> dict[str, Raw]:
    return {"out": own.out, **{f"saved.{i}": array for i, array in enumerate(own.saved)}}


def _gradient_arrays(own: RankGradients) -> dict[str, Raw]:
    return {"dx": own.dx, "dgate": own.dgate, "dw13": own.dw13, "dw2": own.dw2}


def _numbered(name: str, arrays: Mapping[str, Raw]) -> tuple[Raw, ...]:
    """Returns the arrays `name.0`, `name.1` and so on."""
    count = sum(key.startswith(f"{name}.") for key in arrays)
    return tuple(arrays[f"{name}.{i}"] for i in range(count))
