"""The kernel registry: kernels that are built in, registered by this process, or installed."""

from __future__ import annotations

import difflib
from importlib.metadata import EntryPoint

from hpmoe_ir.extensions import KERNELS, extensions
from hpmoe_ir.kernels.elementwise import ELEMENTWISE_KERNELS
from hpmoe_ir.kernels.kernel import Kernel, KernelError, Variant
from hpmoe_ir.kernels.matmul import MATMUL_KERNELS
from hpmoe_ir.kernels.routing import ROUTING_KERNELS
from hpmoe_ir.kernels.rows import ROW_KERNELS

_BUILT_IN = (*ROUTING_KERNELS, *ROW_KERNELS, *MATMUL_KERNELS, *ELEMENTWISE_KERNELS)

_registry: dict[str, Kernel] = {kernel.name: kernel for kernel in _BUILT_IN}


def register_kernel(kernel: Kernel) -> Kernel:
    """Registers a kernel and returns it; raises KernelError if another one has its name."""
    known = _registry.get(kernel.name)
    if known is not None and known != kernel:
        raise KernelError(
            f"kernel '{kernel.name}' is registered already, by {known.ascendc.header}"
        )
    _registry[kernel.name] = kernel
    return kernel


def find_kernel(name: str) -> Kernel:
    """Returns a kernel by name: built in, registered by this process, or of an installed package.

    Raises KernelError for an unknown name, with the nearest known one.
    """
    if name not in _registry:
        others = extensions(KERNELS)
        if name in others:
            return _load(others[name])
        known = sorted({*_registry, *others})
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise KernelError(f"unknown kernel '{name}', registered: {', '.join(known)}{hint}")
    return _registry[name]


def find_variant(base: str, variant: Variant) -> Kernel:
    """Returns the kernel `base` or its variant with the properties `variant`.

    Raises KernelError if there is none.
    """
    for kernel in _registry.values():
        if kernel.base == base and kernel.variant == variant:
            return kernel
    raise KernelError(f"kernel '{find_kernel(base).name}' has no variant {variant}")


def _load(point: EntryPoint) -> Kernel:
    """Loads and registers the kernel of another package's entry point."""
    try:
        kernel = point.load()
    except (ImportError, AttributeError) as e:
        raise KernelError(f"kernel '{point.name}': cannot load {point.value}: {e}") from e
    if not isinstance(kernel, Kernel) or kernel.name != point.name:
        raise KernelError(
            f"kernel '{point.name}': expected {point.value} to be a Kernel of that name, found "
            f"{kernel.name if isinstance(kernel, Kernel) else type(kernel).__name__}"
        )
    return register_kernel(kernel)
