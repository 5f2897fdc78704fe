"""Right programs of the compiler, which the adversary changes: layers, and tile programs."""

from __future__ import annotations

import random

from generated.tile_programs import tile_program
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import DiagnosticException

from adversary.machine import small_machine
from hpmoe_ir.dialects.queue import ProgramOp, orders_of
from hpmoe_ir.frontends.build_layer import layer_module
from hpmoe_ir.frontends.presets import preset_layer
from hpmoe_ir.passes.allocate_events import AllocateEventsPass
from hpmoe_ir.passes.assign_queues import AssignQueuesPass
from hpmoe_ir.passes.derive_backward import DeriveBackwardPass
from hpmoe_ir.passes.elide_dependencies import ElideDependenciesPass
from hpmoe_ir.passes.insert_dependencies import InsertDependenciesPass
from hpmoe_ir.passes.pipeline import LoweringOptions, lower_moe
from hpmoe_ir.passes.plan_memory import PlanMemoryPass
from hpmoe_ir.passes.policies.depth_first import DepthFirst
from hpmoe_ir.passes.policies.operator_order import OperatorOrder
from hpmoe_ir.passes.policies.published import Published
from hpmoe_ir.passes.verify_queues import VerifyQueuesPass

MOST_TASKS = 90
"""Tasks of a rank of a base: each is judged in several launches and routings."""


def _program(module: ModuleOp, chance: random.Random) -> ModuleOp | None:
    programs = [op for op in module.ops if isinstance(op, ProgramOp)]
    found = chance.choice(programs)
    tasks = sum(order.slot_values.size for order in orders_of(found).values())
    return ModuleOp([found.clone()]) if tasks <= MOST_TASKS else None


def layer_base(seed: int) -> ModuleOp:
    """Returns a queue program of a small layer, compiled in one of many ways."""
    for turn in range(50):
        chance = random.Random(f"layer {seed} {turn}")
        ranks = chance.choice((1, 2, 2, 2, 3))
        local = chance.choice((1, 1, 2))
        top = chance.randint(1, min(2, ranks * local))
        config = preset_layer("deepseek-v3-tiny").with_sizes(
            ranks=ranks,
            experts=ranks * local,
            top_k=top,
            hidden=chance.choice((16, 32)),
            width=16,
            tokens=chance.choice((3, 4, 6)),
        )
        if chance.random() < 0.3:
            config = config.with_sizes(capacity=chance.randint(1, config.max_received_rows))
        module = layer_module(config)
        policy = chance.choice((OperatorOrder(), OperatorOrder(), DepthFirst(), Published()))
        shares = chance.choice((0, 0, 2))
        options = LoweringOptions(
            machine=small_machine(),
            policy=policy,
            credit=chance.random() < 0.7,
            elide=chance.random() < 0.7,
            reuse=chance.random() < 0.7,
            granularity=chance.choice(("part", "expert")),
            token_chunks=chance.choice((1, 1, 2)),
            put_chunks=chance.choice((1, 1, 2)),
            row_chunks=chance.choice((1, 1, 2)),
            source_groups=chance.randint(1, ranks),
            matrix_shares=shares,
            task_cols=0 if shares else chance.choice((0, 16)),
            matmul_kernels=chance.choice(("default", "cann-like")),
            tile_m=16,
            tile_n=16,
            tile_k=16,
        )
        try:
            if chance.random() < 0.35:
                DeriveBackwardPass().apply(Context(), module)
            for module_pass in lower_moe(options):
                if not isinstance(module_pass, VerifyQueuesPass):
                    module_pass.apply(Context(), module)
        except DiagnosticException:
            continue  # this way of compiling does not suit the layer
        if (found := _program(module, chance)) is not None:
            return found
    raise AssertionError(f"no layer of seed {seed} is small enough")


def tile_base(seed: int) -> ModuleOp:
    """Returns a queue program made of families that are drawn one by one."""
    for turn in range(50):
        chance = random.Random(f"tile {seed} {turn}")
        program = tile_program(chance.randrange(1 << 30), chance.randint(1, 3))
        if program.ranks > 3:
            continue
        module = program.module
        InsertDependenciesPass(granularity=chance.choice(("part", "expert"))).apply(
            Context(), module
        )
        if chance.random() < 0.5:
            ElideDependenciesPass().apply(Context(), module)
        PlanMemoryPass(reuse=chance.random() < 0.5).apply(Context(), module)
        AssignQueuesPass(
            policy=OperatorOrder(), rotate=chance.random() < 0.5, machine=small_machine()
        ).apply(Context(), module)
        AllocateEventsPass().apply(Context(), module)
        if (found := _program(module, chance)) is not None:
            return found
    raise AssertionError(f"no tile program of seed {seed} is small enough")
