"""Matrix kernels that use a core as CANN's grouped matmul does: to compare other systems' orders.

They compute what `grouped_matmul` and `weight_gradient` do, block by block: L1 has two chunks of
both operands and nothing that stays, and a block of a gradient is stored before the next is begun.
"""

from __future__ import annotations

from dataclasses import replace

from hpmoe_ir.kernels.kernel import Kernel

PLAIN_PREFIX = "plain_"


def plain_kernel(kernel: Kernel) -> Kernel:
    """The plain one of a matrix kernel of this project, or of its share kernel."""
    return replace(
        kernel,
        name=f"{PLAIN_PREFIX}{kernel.name}",
        function=kernel.function.replace("::", "::Plain"),
    )
