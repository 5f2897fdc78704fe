"""A directory in shared memory where the processes of a group of ranks meet for each launch."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hpmoe_ir.output import write_file
from hpmoe_ir.training.arrays import Raw

POLL_SECONDS = 0.002
"""Time between two looks at the directory."""

FAILED = "failed"
"""Name of the file with the message with which all ranks stop."""


class GroupStoppedError(RuntimeError):
    """The ranks of a group have stopped: one didn't come in time, has ended, or has failed."""


class DifferentKernelsError(RuntimeError):
    """The ranks of a group would run different kernels."""


def check_same_kernels(digests: Sequence[str]) -> None:
    """Raises DifferentKernelsError unless all ranks have the same kernels.

    `digests[r]` is that of rank r, see `CompiledExperts.digest`. The message is the same on all
    ranks.
    """
    ranks: dict[str, list[int]] = {}
    for rank, digest in enumerate(digests):
        ranks.setdefault(digest, []).append(rank)
    if len(ranks) > 1:
        found = "; ".join(
            f"{digest[:12]} on {_ranks(which)}" for digest, which in sorted(ranks.items())
        )
        raise DifferentKernelsError(
            f"expected the same kernels on all ranks of the group, found {found}: are arguments "
            "and versions the same?"
        )


def _ranks(which: Sequence[int]) -> str:
    return f"rank{'s' * (len(which) > 1)} {', '.join(map(str, which))}"


def new_directory() -> Path:
    """Returns a new directory, in shared memory where there is one."""
    shared = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="hpmoe-group-", dir=shared if shared.is_dir() else None))


@dataclass
class Meeting:
    """One rank's view of the directory of its group; the processes are on one host."""

    directory: Path
    rank: int
    ranks: int
    wait_seconds: float
    """Longest wait for another rank to launch."""
    _processes: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        write_file(self.directory / f"process-{self.rank}", str(os.getpid()).encode())

    def put(self, name: str, arrays: Mapping[str, Raw]) -> None:
        """Writes arrays under a name, all at once."""
        path = self.directory / f"{name}.npz"
        partial = path.with_name(f"{name}.{self.rank}.partial")
        with partial.open("wb") as file:
            np.savez(file, **dict[str, Any](arrays))
        partial.replace(path)

    def take(self, name: str, of: int, what: str, is_running: str = "") -> dict[str, Raw]:
        """Waits for the arrays that rank `of` puts under a name, and removes them.

        `what` says in messages what is waited for. While the file `is_running` is there the wait is
        not limited, as long as the process of rank `of` lives. Raises GroupStoppedError.
        """
        path = self.directory / f"{name}.npz"
        started = time.monotonic()
        while not path.is_file():
            self.check()
            running = bool(is_running) and (self.directory / is_running).is_file()
            waited = time.monotonic() - started
            if not self._lives(of) and not path.is_file():
                self.stop(f"rank {of} has ended, rank {self.rank} was waiting for its {what}")
            if waited > self.wait_seconds and not running:
                self.stop(
                    f"rank {self.rank} has waited {self.wait_seconds:g} s for the {what} of rank "
                    f"{of}"
                )
            time.sleep(POLL_SECONDS)
        with np.load(path) as file:
            arrays: dict[str, Raw] = {key: file[key] for key in file.files}
        path.unlink()
        return arrays

    def mark(self, name: str) -> Callable[[], None]:
        """Creates an empty file; the function that is returned removes it."""
        path = self.directory / name
        path.touch()
        return lambda: path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raises GroupStoppedError if a rank has stopped the group."""
        path = self.directory / FAILED
        if not self.directory.is_dir():
            raise GroupStoppedError("the ranks have stopped: rank 0 has closed the module")
        if path.is_file():
            raise GroupStoppedError(f"the ranks have stopped: {path.read_text()}")

    def stop(self, message: str) -> None:
        """Stops all ranks with a message, the first one of the group. Raises GroupStoppedError."""
        path = self.directory / FAILED
        partial = self.directory / f"{FAILED}.{self.rank}"
        partial.write_text(message)
        try:
            os.link(partial, path)
        except FileExistsError:
            pass
        self.check()

    def close(self) -> None:
        """Removes the directory, on rank 0."""
        if self.rank == 0:
            shutil.rmtree(self.directory, ignore_errors=True)

    def _lives(self, rank: int) -> bool:
        """Returns whether the process of a rank lives, or has not come yet."""
        if rank not in self._processes:
            path = self.directory / f"process-{rank}"
            if not path.is_file():
                return True
            self._processes[rank] = int(path.read_text())
        try:
            state = Path(f"/proc/{self._processes[rank]}/stat").read_text().rpartition(")")[2]
        except OSError:
            return False
        return state.split()[0] != "Z"
