"""A timed run as one page for a browser: what each core of a rank did, and when."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hpmoe_ir.dialects.queue import POINT_BITS
from hpmoe_ir.run.execution import task_name
from hpmoe_ir.timing.losses import sent_since
from hpmoe_ir.timing.simulation import Simulation
from hpmoe_ir.timing.trace_file import core_names
from hpmoe_ir.timing.usage import sending_tasks

PAGE = Path(__file__).parent / "lane_page.html"
"""The page without its content."""

PLACE = "{/*content*/}"
"""Where in the page the content goes, a JSON object."""


def lane_page(simulation: Simulation) -> bytes:
    """The page for the rank that receives most rows; it needs nothing but itself."""
    content = json.dumps(_content(simulation), separators=(",", ":")).replace("</", "<\\/")
    before, _, after = PAGE.read_text().partition(PLACE)
    return f"{before}{content}{after}".encode()


def _content(simulation: Simulation) -> dict[str, Any]:
    timeline, order, rank = simulation.timeline, simulation.order, simulation.hottest_rank
    what, program = simulation.configuration, timeline.program
    rows = np.flatnonzero(timeline.tasks["rank"] == rank)
    tasks = timeline.tasks[rows]
    puts = sending_tasks(timeline)
    arrival = np.clip(order.arrival[rows], tasks["turn"], tasks["ready"])
    shipped = np.clip(sent_since(order, puts)[rows], tasks["turn"], arrival)
    mirrored = simulation.simulated_ranks < what.ranks

    def reason(sender: int) -> str:
        if sender < 0:
            return ""
        other = timeline.tasks[sender]
        like = ", or its like on a peer" if mirrored and puts[sender] else ""
        return f"{task_name(program, int(other['slot']))} on rank {other['rank']}{like}"

    reasons = [reason(int(sender)) for sender in order.sender[rows]]
    known = {reason: i for i, reason in enumerate(dict.fromkeys(reasons))}
    family = tasks["slot"] >> POINT_BITS

    def ns(times: Any) -> list[int]:
        return np.rint(times).astype(np.int64).tolist()

    return {
        "layer": what.layer,
        "about": {
            "function": f"@{what.function}",
            "schedule": what.schedule,
            "routing": f"{what.routing}, seed {what.seed}",
            "machine": f"{timeline.machine.name}, sha256 {timeline.machine.digest[:16]}",
            "simulated": f"{simulation.simulated_ranks} of {what.ranks} ranks",
            "rank": str(rank),
        },
        "pipeline": what.pipeline,
        "time": round(simulation.time_us, 3),
        "speedup": None if simulation.speedup is None else round(simulation.speedup, 3),
        "bounds": {
            k.removesuffix("_us"): round(v, 3) for k, v in asdict(simulation.bounds).items()
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
            "link": ns(arrival - shipped),
            "poll": ns(tasks["ready"] - arrival),
            "ready": ns(tasks["ready"]),
            "end": ns(tasks["end"]),
            "busy": ns(tasks["busy"]),
            "slack": ns(simulation.slack_us[rows] * 1000),
        },
    }
