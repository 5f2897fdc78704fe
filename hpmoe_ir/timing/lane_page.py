"""Renders a timed run as an HTML page with a lane of tasks for each core of a rank."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.run.execution import task_name
from hpmoe_ir.timing.losses import send_starts
from hpmoe_ir.timing.simulation import Simulation
from hpmoe_ir.timing.trace_file import core_names
from hpmoe_ir.timing.usage import sending_tasks

TEMPLATE = Path(__file__).parent / "lane_page.html"
"""The page without its data."""

PLACEHOLDER = "{/*content*/}"
"""Text of the template that is replaced by the data, a JSON object."""


def lane_page(simulation: Simulation) -> bytes:
    """Returns the self-contained page of the rank that receives the most rows."""
    content = json.dumps(_content(simulation), separators=(",", ":")).replace("</", "<\\/")
    before, _, after = TEMPLATE.read_text().partition(PLACEHOLDER)
    return f"{before}{content}{after}".encode()


def _content(simulation: Simulation) -> dict[str, Any]:
    timeline, order, rank = simulation.timeline, simulation.order, simulation.hottest_rank
    configuration, program = simulation.configuration, timeline.program
    rows = np.flatnonzero(timeline.tasks["rank"] == rank)
    tasks = timeline.tasks[rows]
    puts = sending_tasks(timeline)
    arrival = np.clip(order.arrival[rows], tasks["turn"], tasks["ready"])
    send_start = np.clip(send_starts(order, puts)[rows], tasks["turn"], arrival)
    mirrored = simulation.simulated_ranks < configuration.ranks

    def reason(sender: int) -> str:
        if sender < 0:
            return ""
        other = timeline.tasks[sender]
        like = ", or its counterpart on a peer" if mirrored and puts[sender] else ""
        return f"{task_name(program, int(other['slot']))} on rank {other['rank']}{like}"

    reasons = [reason(int(sender)) for sender in order.sender[rows]]
    known = {reason: i for i, reason in enumerate(dict.fromkeys(reasons))}
    family = tasks["slot"] >> POINT_BITS

    def ns(times: Any) -> list[int]:
        return np.rint(times).astype(np.int64).tolist()

    return {
        "layer": configuration.layer,
        "about": {
            "function": f"@{configuration.function}",
            "schedule": configuration.schedule,
            "routing": f"{configuration.routing}, seed {configuration.seed}",
            "machine": f"{timeline.machine.name}, sha256 {timeline.machine.digest[:16]}",
            "simulated": f"{simulation.simulated_ranks} of {configuration.ranks} ranks",
            "rank": str(rank),
        },
        "pipeline": configuration.pipeline,
        "time": round(simulation.time_us, 3),
        "speedup": None if simulation.speedup is None else round(simulation.speedup, 3),
        "bounds": {
            k.removesuffix("_us"): round(v, 3) for k, v in asdict(simulation.bounds).items()
        },
        "ownBounds": {
            k.removesuffix("_us"): round(v, 3) for k, v in asdict(simulation.program_bounds).items()
        },
        "overlap": {
            **{k.removesuffix("_us"): round(v, 3) for k, v in asdict(simulation.overlap).items()},
            "reached": round(simulation.overlap.reached, 4),
        },
        "losses": {
            k.removesuffix("_us"): round(v, 3) + 0.0 for k, v in asdict(simulation.losses).items()
        },
        "utilisation": {k: round(v, 4) for k, v in asdict(simulation.utilisation).items()},
        "exposed": round(simulation.exposed_us, 3),
        "cores": core_names(simulation),
        "families": list(program.families),
        "reasons": list(known),
        "tasks": {
            "core": tasks["core"].tolist(),
            "family": family.tolist(),
            "name": [task_name(program, int(slot)).partition(" ")[2] for slot in tasks["slot"]],
            "reason": [known[reason] for reason in reasons],
            "turn": ns(tasks["turn"]),
            "link": ns(arrival - send_start),
            "poll": ns(tasks["ready"] - arrival),
            "ready": ns(tasks["ready"]),
            "end": ns(tasks["end"]),
            "busy": ns(tasks["busy"]),
            "slack": ns(simulation.slack_us[rows] * 1000),
        },
    }
