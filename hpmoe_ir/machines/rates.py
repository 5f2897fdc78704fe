"""Rates of a machine, read by the clocks of the CPU model, the bounds and the cost models."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


def _rate(section: str, key: str, unit: str) -> float:
    return field(metadata={"section": section, "key": key, "unit": unit})


@dataclass(frozen=True)
class Rates:
    """Bandwidths, throughputs and latencies of one chip (one die of a package with two).

    Bandwidths are in bytes per second, latencies in seconds, start costs in cycles of a core.
    """

    clock_frequency: float = _rate("clock", "frequency", "Hz")
    """Cycles of a core per second."""
    clock_system_counter: float = _rate("clock", "system_counter", "Hz")
    """Ticks of `GetSystemCycle` per second."""
    matrix_mmad_head: float = _rate("matrix", "mmad_head", "cycles")
    """Fixed cycles of an Mmad, on top of ceil(m / 16) * ceil(n / 16) * ceil(k / 16)."""
    matrix_l1_to_l0a: float = _rate("matrix", "l1_to_l0a", "bytes/cycle")
    """Bandwidth from L1 to L0A."""
    matrix_l1_to_l0b: float = _rate("matrix", "l1_to_l0b", "bytes/cycle")
    """Bandwidth from L1 to L0B."""
    matrix_queue_depth: float = _rate("matrix", "queue_depth", "instructions")
    """Instructions that the queue of a pipe holds; the scalar unit waits for a full one."""
    vector_bytes_per_cycle: float = _rate("vector", "bytes_per_cycle", "bytes/cycle")
    """Throughput of element-wise operations, in bytes of the wider operand."""
    vector_slow_elements: float = _rate("vector", "slow_elements", "elements/cycle")
    """Throughput of Exp, Ln, Div and Sqrt."""
    vector_head: float = _rate("vector", "head", "cycles")
    """Cycles before the first element, paid where a later operation waits for this one."""
    vector_tail: float = _rate("vector", "tail", "cycles")
    """Cycles after the last element, paid like the head."""
    vector_floor: float = _rate("vector", "floor", "cycles")
    """Cycles of the shortest operation."""
    scalar_call: float = _rate("scalar", "call", "cycles")
    """Cycles of the scalar unit per API call."""
    scalar_local_access: float = _rate("scalar", "local_access", "cycles")
    """Cycles of a scalar read or write of UB."""
    scalar_cached_access: float = _rate("scalar", "cached_access", "cycles")
    """Cycles of a scalar read or write of global memory that hits the data cache."""
    core_bandwidth_gm_to_ub: float = _rate("core_bandwidth", "gm_to_ub", "bytes/s")
    """Bandwidth of one core alone for loads into UB."""
    core_bandwidth_gm_to_l1: float = _rate("core_bandwidth", "gm_to_l1", "bytes/s")
    """Bandwidth of one core alone for loads into L1."""
    core_bandwidth_ub_to_gm: float = _rate("core_bandwidth", "ub_to_gm", "bytes/s")
    """Bandwidth of one core alone for stores from UB or L1."""
    core_bandwidth_l0c_to_gm: float = _rate("core_bandwidth", "l0c_to_gm", "bytes/s")
    """Bandwidth of one core alone for stores from L0C, in bytes as stored."""
    core_bandwidth_link: float = _rate("core_bandwidth", "link", "bytes/s")
    """Bandwidth of one core alone over a link to another rank."""
    shared_bandwidth_l2: float = _rate("shared_bandwidth", "l2", "bytes/s")
    """Bandwidth of all cores of a chip together to L2."""
    shared_bandwidth_hbm: float = _rate("shared_bandwidth", "hbm", "bytes/s")
    """Bandwidth of all cores of a chip together to HBM, the memory behind L2."""
    shared_bandwidth_link_out: float = _rate("shared_bandwidth", "link_out", "bytes/s")
    """Bandwidth out of a chip to all others."""
    shared_bandwidth_link_in: float = _rate("shared_bandwidth", "link_in", "bytes/s")
    """Bandwidth into a chip from all others."""
    dma_gm_to_ub_start: float = _rate("dma", "gm_to_ub_start", "cycles")
    """Cycles before the first byte of a load into UB."""
    dma_gm_to_l1_start: float = _rate("dma", "gm_to_l1_start", "cycles")
    """Cycles before the first byte of a load into L1."""
    dma_ub_to_gm_start: float = _rate("dma", "ub_to_gm_start", "cycles")
    """Cycles before the first byte of a store from UB."""
    dma_l0c_to_gm_start: float = _rate("dma", "l0c_to_gm_start", "cycles")
    """Cycles before the first byte of a store from L0C."""
    dma_granule: float = _rate("dma", "granule", "bytes")
    """Size to whose multiple each contiguous piece of a transfer is rounded up."""
    latency_poll: float = _rate("latency", "poll", "s")
    """Time of a scalar read of global memory that misses the data cache."""
    latency_write: float = _rate("latency", "write", "s")
    """Time until a write to the own chip is acknowledged."""
    latency_remote_write: float = _rate("latency", "remote_write", "s")
    """Time until a write to another rank is acknowledged."""
    latency_signal: float = _rate("latency", "signal", "s")
    """Time of a signal to a counter of the own chip."""
    latency_remote_signal: float = _rate("latency", "remote_signal", "s")
    """Time of a signal to a counter of another rank."""
    latency_cross_core: float = _rate("latency", "cross_core", "s")
    """Time from CrossCoreSetFlag to the end of a wait for it; also of SyncAll."""
    latency_launch: float = _rate("latency", "launch", "s")
    """Time to launch a kernel."""
    latency_host_sync: float = _rate("latency", "host_sync", "s")
    """Time until the host has read a few results of a kernel and can launch the next."""
    latency_collective: float = _rate("latency", "collective", "s")
    """Time of a host synchronisation of all ranks between two kernels."""
    l2_bytes: float = _rate("l2", "bytes", "bytes")
    """Size of L2."""
    l2_line: float = _rate("l2", "line", "bytes")
    """Cache line of L2, the unit of fetches and write-backs."""


RATE_NAMES: dict[str, str] = {
    f"{f.metadata['section']}.{f.metadata['key']}": f.name for f in fields(Rates)
}
"""Field of `Rates` of each number of a description, by section and key."""
RATE_UNITS: dict[str, str] = {
    f"{f.metadata['section']}.{f.metadata['key']}": f.metadata["unit"] for f in fields(Rates)
}
"""Unit of each number of `RATE_NAMES`, by section and key."""

RANGES: dict[str, tuple[float, float]] = {
    "Hz": (1e6, 1e12),
    "cycles": (0, 1e6),
    "bytes/cycle": (1, 1e6),
    "elements/cycle": (1, 1e6),
    "instructions": (1, 1e6),
    "bytes/s": (1e6, 1e18),
    "s": (0, 0.1),
    "ratio": (1, 100),
    "bytes": (1, 2**40),
    "dma.granule": (1, 2**16),
    "l2.line": (32, 2**16),
}
"""Smallest and largest value of a rate, by its name or else its unit.

The ranges are wider than those of any chip. On a much slower machine a run would poll more often
than can be simulated.
"""

WHOLE_UNITS = frozenset({"instructions", "bytes"})
"""Units of the rates that must be whole numbers."""
