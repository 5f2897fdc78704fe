"""How fast a machine is: what the clocks of the CPU model, bounds and cost models read."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


def _rate(section: str, key: str, unit: str) -> float:
    return field(metadata={"section": section, "key": key, "unit": unit})


@dataclass(frozen=True)
class Rates:
    """Speeds and latencies of one chip (one die where a package has two).

    Bandwidths are bytes a second, latencies seconds, start costs cycles of a core.
    """

    clock_frequency: float = _rate("clock", "frequency", "Hz")
    """Cycles a second of a core."""
    clock_system_counter: float = _rate("clock", "system_counter", "Hz")
    """Ticks a second of `GetSystemCycle`."""
    matrix_mmad_head: float = _rate("matrix", "mmad_head", "cycles")
    """Cycles of an Mmad besides ceil(m / 16) * ceil(n / 16) * ceil(k / 16)."""
    matrix_l1_to_l0a: float = _rate("matrix", "l1_to_l0a", "bytes/cycle")
    """Bytes a cycle from L1 to L0A."""
    matrix_l1_to_l0b: float = _rate("matrix", "l1_to_l0b", "bytes/cycle")
    """Bytes a cycle from L1 to L0B."""
    matrix_queue_depth: float = _rate("matrix", "queue_depth", "instructions")
    """Instructions that a pipe takes before the scalar unit has to wait."""
    vector_bytes_per_cycle: float = _rate("vector", "bytes_per_cycle", "bytes/cycle")
    """Bytes a cycle of the wider operand of an element-wise operation."""
    vector_slow_elements: float = _rate("vector", "slow_elements", "elements/cycle")
    """Elements a cycle of Exp, Ln, Div and Sqrt."""
    vector_head: float = _rate("vector", "head", "cycles")
    """Cycles before the first element, seen where the next operation has to wait for this one."""
    vector_tail: float = _rate("vector", "tail", "cycles")
    """Cycles after the last element, seen like the head."""
    vector_floor: float = _rate("vector", "floor", "cycles")
    """Cycles of the shortest operation."""
    scalar_call: float = _rate("scalar", "call", "cycles")
    """Cycles in which the scalar unit makes an API call."""
    scalar_local_access: float = _rate("scalar", "local_access", "cycles")
    """Cycles of a scalar read or write of UB."""
    scalar_cached_access: float = _rate("scalar", "cached_access", "cycles")
    """Cycles of a scalar read or write of global memory that hits the data cache."""
    core_bandwidth_gm_to_ub: float = _rate("core_bandwidth", "gm_to_ub", "bytes/s")
    """What one core alone loads into UB."""
    core_bandwidth_gm_to_l1: float = _rate("core_bandwidth", "gm_to_l1", "bytes/s")
    """What one core alone loads into L1."""
    core_bandwidth_ub_to_gm: float = _rate("core_bandwidth", "ub_to_gm", "bytes/s")
    """What one core alone stores from UB, or L1."""
    core_bandwidth_l0c_to_gm: float = _rate("core_bandwidth", "l0c_to_gm", "bytes/s")
    """What one core alone stores from L0C, counted in bytes as stored."""
    core_bandwidth_link: float = _rate("core_bandwidth", "link", "bytes/s")
    """What one core alone exchanges with another rank."""
    shared_bandwidth_l2: float = _rate("shared_bandwidth", "l2", "bytes/s")
    """All cores of a chip together, with L2."""
    shared_bandwidth_hbm: float = _rate("shared_bandwidth", "hbm", "bytes/s")
    """All cores of a chip together, with memory behind L2."""
    shared_bandwidth_link_out: float = _rate("shared_bandwidth", "link_out", "bytes/s")
    """What a chip sends to all others."""
    shared_bandwidth_link_in: float = _rate("shared_bandwidth", "link_in", "bytes/s")
    """What a chip receives from all others."""
    dma_gm_to_ub_start: float = _rate("dma", "gm_to_ub_start", "cycles")
    """Cycles before the first byte of a load into UB."""
    dma_gm_to_l1_start: float = _rate("dma", "gm_to_l1_start", "cycles")
    """Cycles before the first byte of a load into L1."""
    dma_ub_to_gm_start: float = _rate("dma", "ub_to_gm_start", "cycles")
    """Cycles before the first byte of a store from UB."""
    dma_l0c_to_gm_start: float = _rate("dma", "l0c_to_gm_start", "cycles")
    """Cycles before the first byte of a store from L0C."""
    dma_granule: float = _rate("dma", "granule", "bytes")
    """Each contiguous piece of a transfer counts as a multiple of this."""
    latency_poll: float = _rate("latency", "poll", "s")
    """A scalar read of global memory that misses the data cache."""
    latency_write: float = _rate("latency", "write", "s")
    """Until a write to the own chip is acknowledged."""
    latency_remote_write: float = _rate("latency", "remote_write", "s")
    """Until a write to another rank is acknowledged."""
    latency_signal: float = _rate("latency", "signal", "s")
    """From a signal to a counter of the own chip."""
    latency_remote_signal: float = _rate("latency", "remote_signal", "s")
    """From a signal to a counter of another rank."""
    latency_cross_core: float = _rate("latency", "cross_core", "s")
    """From CrossCoreSetFlag to the end of a wait for it, and of SyncAll."""
    latency_launch: float = _rate("latency", "launch", "s")
    """Start of a kernel."""
    latency_collective: float = _rate("latency", "collective", "s")
    """Host synchronisation of all ranks between two kernels."""
    l2_bytes: float = _rate("l2", "bytes", "bytes")
    """Size of L2."""
    l2_line: float = _rate("l2", "line", "bytes")
    """What L2 holds, fetches and writes back as a whole."""


RATE_NAMES: dict[str, str] = {
    f"{f.metadata['section']}.{f.metadata['key']}": f.name for f in fields(Rates)
}
"""Field of `Rates` for each number of a description, by section and key."""
RATE_UNITS: dict[str, str] = {
    f"{f.metadata['section']}.{f.metadata['key']}": f.metadata["unit"] for f in fields(Rates)
}
"""Unit of each of these numbers."""

RANGES: dict[str, tuple[float, float]] = {
    "Hz": (1e6, 1e12),
    "cycles": (0, 1e6),
    "bytes/cycle": (1, 1e6),
    "elements/cycle": (1, 1e6),
    "instructions": (1, 1e6),
    "bytes/s": (1e6, 1e18),
    "s": (0, 0.1),
    "bytes": (1, 2**40),
    "dma.granule": (1, 2**16),
    "l2.line": (32, 2**16),
}
"""Least and most of a rate, by its name or else its unit.

Wider than any chip. A run of a machine that is slower by far has more polls than can be simulated.
"""

WHOLE_UNITS = frozenset({"instructions", "bytes"})
"""Units of rates that are whole numbers."""
