// RUN: hpmoe-opt %s --split-input-file -p allocate-events | filecheck %s

// A line for each event, family after family; the counters begin at a multiple of 512 bytes after the windows.
queue.program @events ranks 2 machine "ascend-a3" {
  tile.buffer @a workspace at 4096 : !tile.buffer<5x6xi32>
  tile.buffer @w window at 512 : !tile.buffer<5x6xi32>
  tile.buffer @v window copies 2 at 0 : !tile.buffer<5x6xi32>
  queue.event @p_done (3, 2) count 1
  queue.event @q_done () count 6
  queue.event @r_done (2) count [4, 5]
}

// CHECK:      queue.program @events ranks 2 machine "ascend-a3" counters at 1024 {
// CHECK-NEXT:   tile.buffer @a workspace at 4096 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @w window at 512 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @v window copies 2 at 0 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   queue.event @p_done (3, 2) count 1 line 0
// CHECK-NEXT:   queue.event @q_done () count 6 line 6
// CHECK-NEXT:   queue.event @r_done (2) count [4, 5] line 7
// CHECK-NEXT: }

// -----

// Lines that are there are given again: nothing changes.
queue.program @again ranks 2 machine "ascend-a3" counters at 512 {
  tile.buffer @w window at 0 : !tile.buffer<128xi32>
  queue.event @p_done (3) count 1 line 0
  queue.event @q_done () count 6 line 3
}

// CHECK:      queue.program @again ranks 2 machine "ascend-a3" counters at 512 {
// CHECK-NEXT:   tile.buffer @w window at 0 : !tile.buffer<128xi32>
// CHECK-NEXT:   queue.event @p_done (3) count 1 line 0
// CHECK-NEXT:   queue.event @q_done () count 6 line 3
// CHECK-NEXT: }

// -----

// No windows, no events.
queue.program @nothing ranks 1 machine "ascend-a3" {
}

// CHECK:      queue.program @nothing ranks 1 machine "ascend-a3" counters at 0 {
// CHECK-NEXT: ^bb0:
// CHECK-NEXT: }
