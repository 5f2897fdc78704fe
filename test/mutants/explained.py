"""Why undetected mutants are harmless."""

from __future__ import annotations

from enum import Enum

from mutants.mutant import Outcome


class Reason(Enum):
    """Why a mutant is equivalent to the original program."""

    ORDER_HOLDS = "all orders that the program needs still hold, as the oracle proves"
    """Changes of the IR, and of table and source with an equivalent change of the IR."""
    LOOP_BARRIER = (
        "the task ends here: the worker loop waits for all pipes before the next task, and a "
        "signal waits for the pipe that writes"
    )
    KERNEL_BARRIER = "each kernel that writes ends with a barrier of all pipes, before any signal"
    FLAG_FOLLOWS = "a flag of the same pipe follows and waits for all its earlier instructions"
    BOTH_FLAGS = "the loop sets, or waits for, the flags of both slots, now in the other order"
    ONE_PLACE = "a flag that is set and waited for at once may have any number"
    ONE_SLOT = "one slot with its flags is correct, only slower"
    OWN_LINE = "only the first word of a counter's line is used"
    OTHER_PARTS = (
        "all tasks of the family derive their parts of the tokens from this number, and each waits "
        "for all rows, which are sent only after all tokens are placed: the same work is cut in "
        "another way"
    )
    SAME_VALUE = "the overwritten data has been read, or is overwritten by the same value"
    ONE_FOLD = "all rows are folded in one step here, and a barrier follows"
    ONE_PIECE = (
        "the counts of all chunks are one transfer here, and a flag to the scalar unit follows"
    )
    SAME_TABLE = (
        "the table holds the same in all launches, and other lines are dropped before they are "
        "read: only lines of another program at the same addresses would be left"
    )
    NOT_REACHED = (
        "these programs do not execute this code: no sums over launches, no timed-out waits, no "
        "routing over capacity, no operand that is partly kept in L1"
    )


BY_NAME: dict[str, Reason] = {
    **dict.fromkeys(
        (
            "hpmoe/build_route.h:drop-barrier:0",
            "hpmoe/count_tokens.h:drop-barrier:0",
            "hpmoe/exchange_counts.h:drop-barrier:0",
            "hpmoe/gate_gradient.h:drop-barrier:0",
            "hpmoe/gather_scaled_rows.h:drop-barrier:0",
            "hpmoe/detail/matmul_pipeline.h:drop-barrier:0",
            "hpmoe/place_tokens.h:drop-barrier:0",
            "hpmoe/put_rows.h:drop-barrier:0",
            "hpmoe/detail/rowwise_pipeline.h:drop-barrier:0",
            "hpmoe/detail/section_pipeline.h:drop-barrier:0",
        ),
        Reason.LOOP_BARRIER,
    ),
    "hpmoe/counters.h:drop-barrier:1": Reason.KERNEL_BARRIER,
    "hpmoe/counters.h:drop-barrier:2": Reason.KERNEL_BARRIER,
    "hpmoe/worker.h:drop-barrier:0": Reason.KERNEL_BARRIER,
    "hpmoe/detail/copy_sum.h:drop-barrier:3": Reason.FLAG_FOLLOWS,
    "hpmoe/detail/copy_sum.h:wrong-flag:1": Reason.BOTH_FLAGS,
    "hpmoe/detail/rowwise_pipeline.h:wrong-flag:0": Reason.BOTH_FLAGS,
    "hpmoe/detail/matmul_pipeline.h:one-slot:2": Reason.ONE_SLOT,
    "hpmoe/detail/section_pipeline.h:one-slot:3": Reason.ONE_SLOT,
    "hpmoe/detail/section_pipeline.h:one-slot:4": Reason.ONE_SLOT,
    "hpmoe/detail/section_pipeline.h:wrong-flag:11": Reason.ONE_PLACE,
    **dict.fromkeys(
        (f"hpmoe/detail/section_pipeline.h:wrong-flag:{i}" for i in range(6)), Reason.BOTH_FLAGS
    ),
    "hpmoe/counters.h:launch:2": Reason.OWN_LINE,
    "backward/1/depth-first:size-word:352": Reason.OTHER_PARTS,
    "hpmoe/place_tokens.h:overlap:0": Reason.SAME_VALUE,
    "hpmoe/detail/row_sum.h:drop-barrier:0": Reason.ONE_FOLD,
    "hpmoe/detail/row_sum.h:drop-handover:1": Reason.ONE_PIECE,
    "hpmoe/build_route.h:drop-handover:2": Reason.NOT_REACHED,
    "hpmoe/detail/matmul_block.h:overlap:1": Reason.NOT_REACHED,
    "hpmoe/credit.h:credit:3": Reason.NOT_REACHED,
    "hpmoe/cache.h:drop-cache:1": Reason.SAME_TABLE,
    "hpmoe/cache.h:drop-sync:0": Reason.NOT_REACHED,
    "hpmoe/weight_gradient.h:drop-init:0": Reason.NOT_REACHED,
    "hpmoe/weight_gradient.h:drop-init:1": Reason.NOT_REACHED,
}
"""Mutants of headers and tables that were found equivalent by inspection."""


def explain(outcome: Outcome) -> str:
    """Returns why an undetected mutant is harmless, '' if that is unknown."""
    if outcome.harm == "":
        return Reason.ORDER_HOLDS.value
    reason = BY_NAME.get(outcome.id)
    return "" if reason is None else reason.value
