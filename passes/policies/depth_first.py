"""Policy `depth-first`: expert after expert."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hpmoe_ir.machines.core_kind import CoreKind
from hpmoe_ir.passes.analysis.task_roles import expert_of
from hpmoe_ir.passes.policies.policy import LookAheadPolicy
from hpmoe_ir.passes.scheduling.order import Keys, Order, SchedulingInput


@dataclass(frozen=True)
class DepthFirst(LookAheadPolicy):
    """Expert after expert: all families of an expert before the next expert's.

    Families with an expert coordinate are interleaved expert by expert; families before and after
    them, which handle all experts together, stay before and after. Each time that rows pass from
    vector cores back to matrix cores, the consuming family lags one more expert, so that the matrix
    cores compute the next expert's first matmul while the vector cores process this expert's rows.
    Dispatch puts are issued `ahead` experts early.
    """

    name = "depth-first"

    def __call__(self, work: SchedulingInput) -> Order:
        families, dependences = work.families, work.dependences
        numbers = {f.sym_name.data: i for i, f in enumerate(families)}
        experts = [expert_of(f) for f in families]
        phase = [int(e is not None) for e in experts]
        lag = [0] * len(families)
        # Whether the family is the first of its phase that processes the rows.
        first = [True] * len(families)
        for d in sorted(dependences, key=lambda d: numbers[d.consumer.root_reference.data]):
            p = numbers[d.producer.root_reference.data]
            c = numbers[d.consumer.root_reference.data]
            joins = (experts[p] is None) != (experts[c] is None)
            if phase[p] + int(joins) > phase[c]:
                phase[c] = phase[p] + int(joins)
                lag[c], first[c] = 0, True
            if experts[p] is None or experts[c] is None or phase[p] != phase[c]:
                continue
            again = (
                families[p].core_kind is CoreKind.AIV
                and families[c].core_kind is CoreKind.AIC
                and not first[p]
            )
            lag[c] = max(lag[c], lag[p] + int(again))
            first[c] = False
        keys: Keys = []
        for i, family in enumerate(families):
            count = family.task_count
            expert = experts[i]
            turn = np.zeros(count, dtype=np.int64)
            if expert is not None:
                turn = expert + (-self.ahead if first[i] else lag[i])
            keys.append(
                np.stack(
                    [np.full(count, phase[i]), turn, np.full(count, i), np.arange(count)], axis=1
                )
            )
        return Order(keys)
