"""The option that says which machine a pass compiles for."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.utils.exceptions import PassFailedException

from hpmoe_ir.machines.machine import Machine, MachineError, load_machine
from hpmoe_ir.options.options import Options

DEFAULT_MACHINE = "ascend-a3"


@dataclass(frozen=True)
class MachineOption(Options):
    """A machine description."""

    machine: str = DEFAULT_MACHINE
    """Name of the machine description, or a file that ends in `.toml`."""

    def load_machine(self) -> Machine:
        """Returns the machine. Raises PassFailedException where there is none."""
        try:
            return load_machine(self.machine)
        except MachineError as e:
            raise PassFailedException(f"{self.name}: option 'machine': {e}") from e
