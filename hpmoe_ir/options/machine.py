"""The option `machine`: the machine description that a pass compiles for."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.machines.machine import Machine, MachineError, load_machine
from hpmoe_ir.options.options import Options

DEFAULT_MACHINE = "ascend-a3"


@dataclass(frozen=True)
class MachineOption(Options):
    """Base class of passes and policies with the option `machine`."""

    machine: str = DEFAULT_MACHINE
    """Name of the machine description, or a file that ends in `.toml`."""

    def load_machine(self) -> Machine:
        """Loads the machine description. Raises PassFailedException if it can't be loaded."""
        try:
            return load_machine(self.machine)
        except MachineError as e:
            raise PassFailedException(f"{self.name}: option 'machine': {e}") from e
