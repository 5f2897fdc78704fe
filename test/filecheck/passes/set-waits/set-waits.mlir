// RUN: hpmoe-opt %s --split-input-file -p 'set-waits{budget=50000000 poll-aic=2500 poll-aiv=7500}' | filecheck %s
// RUN: hpmoe-opt %s --split-input-file -p 'set-waits{poll-aiv=9}' | filecheck %s --check-prefix=ONE
// RUN: hpmoe-opt %s --split-input-file -p 'set-waits{poll-aic=5},set-waits{budget=0 poll-aiv=0}' | filecheck %s --check-prefix=AWAY

// Nothing is there yet.
// CHECK:      queue.program @plain ranks 2 machine "ascend-a3" counters at 512 budget 50000000 poll_aic 2500 poll_aiv 7500 {
// ONE:        queue.program @plain ranks 2 machine "ascend-a3" counters at 512 poll_aiv 9 {
// AWAY:       queue.program @plain ranks 2 machine "ascend-a3" counters at 512 poll_aic 5 {
queue.program @plain ranks 2 machine "ascend-a3" counters at 512 {
  queue.event @p_done (3) count 1 line 0
}

// -----

// What is there is replaced; what is not named stays.
// CHECK:      queue.program @set ranks 2 machine "ascend-a3" budget 50000000 poll_aic 2500 poll_aiv 7500 {
// ONE:        queue.program @set ranks 2 machine "ascend-a3" budget 1 poll_aiv 9 {
// AWAY:       queue.program @set ranks 2 machine "ascend-a3" poll_aic 5 {
queue.program @set ranks 2 machine "ascend-a3" budget 1 poll_aiv 2 {
  queue.event @p_done (3) count 1
}
