"""An adversary of `verify-queues`: queue programs, judged by execution rather than by proof.

Nothing here imports `hpmoe_ir.passes.proof` or `hpmoe_ir.passes.analysis`, except the test that
plants faults in the proof.
"""
