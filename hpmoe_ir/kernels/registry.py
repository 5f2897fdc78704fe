"""The kernel registry: built-in kernels, those of this process, and those of installed packages."""

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
    """Adds a kernel to the library; raises KernelError where the name is taken by another."""
    known = _registry.get(kernel.name)
    if known is not None and known != kernel:
        raise KernelError(
            f"kernel '{kernel.name}' is registered already, by {known.ascendc.header}"
        )
    _registry[kernel.name] = kernel
    return kernel


def find_kernel(name: str) -> Kernel:
    """Finds a kernel by name: built in, registered in this process, or of an installed package.

    Raises KernelError with the nearest name where there is none.
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
    """Finds the built-in or registered variant of the kernel `base`, or that kernel itself.

    Raises KernelError where there is none.
    """
    for kernel in _registry.values():
        if kernel.base == base and kernel.variant == variant:
            return kernel
    raise KernelError(f"kernel '{find_kernel(base).name}' has no variant {variant}")


def _load(point: EntryPoint) -> Kernel:
    """The kernel of another package's entry point, registered from now on."""
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
