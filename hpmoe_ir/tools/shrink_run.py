"""`hpmoe run --shrink`: searches for the smallest run with the same failure."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from hpmoe_ir.diagnostics import InputError, one_line
from hpmoe_ir.run.shrink import shrink
from hpmoe_ir.tools.command_line import changed
from hpmoe_ir.tools.layer_run import LayerRun, Say
from hpmoe_ir.tools.progress import Progress
from hpmoe_ir.tools.reference import Reference
from hpmoe_ir.tools.run_failure import RunFailure
from hpmoe_ir.tools.smaller_runs import directions_of, fixed_sizes


class ShrinkRun:
    """Runs a layer and, if that fails, minimizes the failing run."""

    def __init__(
        self,
        args: argparse.Namespace,
        command: Callable[[argparse.Namespace], str],
        reference: Reference,
        progress: Progress,
        say: Say,
    ) -> None:
        self.args = args
        self.command = command
        self.reference = reference
        self.progress = progress
        self.say = say
        self.runs = 0
        self.failure: RunFailure | None = None
        self.others: dict[str, str] = {}

    def run(self) -> int:
        """Prints the smallest failing command and its failure; returns the exit status.

        Also prints smaller runs with another kind of failure, which may be a different bug. Raises
        InputError if the given run is invalid.
        """
        first = self._attempt(self.args, self.say)
        if first is None:
            self.say(f"{'shrink':<9} nothing fails, so there is nothing to make smaller")
            return 0
        self.failure = first
        self.say(f"{'fails':<9} {first.kind}: {first.message.splitlines()[0]}")
        if note := fixed_sizes(self.args):
            self.say(f"{'shrink':<9} {note}")
        budget = self.args.shrink_runs
        found = shrink(
            self.args, directions_of(self.args, first), self._fails, self.command, budget
        )
        end = "nothing smaller fails so" if found.finished else "--shrink-runs N allows more"
        self.say(f"{'shrink':<9} {found.runs} of at most {budget} smaller runs tried; {end}")
        for kind, command in self.others.items():
            self.say(f"{'other':<9} {kind}: {command}")
        smallest = self._one_order(found.case)
        self.say(f"{'smallest':<9} {self.command(smallest)}")
        self.say(f"{'fails':<9} {self.failure.kind}: {self.failure.message}")
        return 1

    def _attempt(self, args: argparse.Namespace, say: Say) -> RunFailure | None:
        try:
            LayerRun(args, self.reference, self.progress, say).run()
        except RunFailure as failure:
            return failure
        except InputError:
            raise
        except Exception as e:
            kind = type(e).__name__
            return RunFailure(f"unexpected {kind}", f"{kind}: {one_line(str(e))}")
        return None

    def _fails(self, args: argparse.Namespace) -> bool:
        """Returns whether a smaller run has the same failure."""
        assert self.failure is not None
        self.runs += 1
        self.progress.prefix = f"shrink {self.runs}: "
        try:
            found = self._attempt(args, lambda _: None)
        except InputError:
            return False  # inconsistent sizes
        finally:
            self.progress.prefix = ""
        if found is None:
            return False
        if not found.is_like(self.failure):
            if not found.kind.startswith("refused"):
                self.others.setdefault(found.kind, self.command(args))
            return False
        self.failure = found
        self.progress.clear()
        return True

    def _one_order(self, args: argparse.Namespace) -> argparse.Namespace:
        """Returns the run with only the failing order, if it still fails."""
        assert self.failure is not None
        seeds = list(self.failure.orders)
        if not seeds:
            return args
        own = None if seeds == [args.seed] else ",".join(str(seed) for seed in seeds)
        alone = changed(args, interleavings=1, order_seed=own)
        return alone if self._fails(alone) else args
