"""What hpmoe_ir adds to xDSL: dialects, passes and targets by name, each imported on demand."""

from xdsl.universe import Universe

HPMOE_UNIVERSE = Universe()
