// RUN: REJECTED hpmoe-opt %s -p 'set-waits{budget=2147483648}' | filecheck %s --check-prefix=BUDGET --match-full-lines
// RUN: REJECTED hpmoe-opt %s -p 'set-waits{poll-aic=-1}' | filecheck %s --check-prefix=POLL --match-full-lines
// RUN: REJECTED hpmoe-opt %s -p set-waits | filecheck %s --check-prefix=NOTHING --match-full-lines

// BUDGET: set-waits-invalid.mlir:[[# @LINE + 3]]:1: error: set-waits: budget: expected 0 to 2147483647 ticks, found 2147483648
// POLL: set-waits-invalid.mlir:[[# @LINE + 2]]:1: error: set-waits: poll_aic: expected 0 to 2147483647 ticks, found -1
// NOTHING: set-waits-invalid.mlir:[[# @LINE + 1]]:1: error: set-waits: expected one of budget, poll_aic, poll_aiv
queue.program @p ranks 2 machine "ascend-a3" {
}
