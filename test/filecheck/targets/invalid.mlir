// RUN: REJECTED hpmoe-opt %s --split-input-file -t ascendc | filecheck %s --match-full-lines
// RUN: REJECTED hpmoe-opt %s --split-input-file -t task-table | filecheck %s --match-full-lines --check-prefix=TABLE

// Not lowered enough.
// CHECK: invalid.mlir: error: target ascendc: expected a queue.program, made by lower-moe; found tile.program of the tile level
// TABLE: invalid.mlir: error: target task-table: expected a queue.program, made by lower-moe; found tile.program of the tile level
tile.program @p ranks 2 {
}

// -----

// Nothing of a layer.
// CHECK-NEXT: invalid.mlir: error: target ascendc: expected a queue.program, made by lower-moe; found none
// TABLE-NEXT: invalid.mlir: error: target task-table: expected a queue.program, made by lower-moe; found none
%0 = "test.op"() : () -> i32

// -----

// Two programs, none of them named.
// CHECK-NEXT: invalid.mlir: error: target ascendc: 2 programs, name one of them by the option program=p or program=q
// TABLE-NEXT: invalid.mlir: error: target task-table: 2 programs, name one of them by the option program=p or program=q
queue.program @p ranks 2 machine "ascend-a3" {
}
queue.program @q ranks 2 machine "ascend-a3" {
}

// -----

// Expanded tasks are for reading.
// CHECK-NEXT: invalid.mlir: error: target ascendc: @p has no orders; tasks that were expanded cannot be lowered
// TABLE-NEXT: invalid.mlir: error: target task-table: @p has no orders; tasks that were expanded cannot be lowered
queue.program @p ranks 2 machine "ascend-a3" {
  queue.core aic 0 {
  }
}

// -----

// Queues for one kind of core only.
// CHECK-NEXT: invalid.mlir: error: target ascendc: @p has no order for the aiv cores; run assign-queues before it
// TABLE-NEXT: invalid.mlir: error: target task-table: @p has no order for the aiv cores; run assign-queues before it
queue.program @p ranks 2 machine "ascend-a3" {
  queue.order aic {
    [] times 24
  }
}

// -----

// A buffer without a place.
// CHECK-NEXT: invalid.mlir: error: target ascendc: @b has no offset; run plan-memory before it
// TABLE-NEXT: invalid.mlir: error: target task-table: @b has no offset; run plan-memory before it
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5xi32>
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Events without counters.
// CHECK-NEXT: invalid.mlir: error: target ascendc: @p has events without counters; run allocate-events before it
// TABLE-NEXT: invalid.mlir: error: target task-table: @p has events without counters; run allocate-events before it
queue.program @p ranks 2 machine "ascend-a3" counters at 0 {
  queue.event @e () count 1
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// CHECK-NEXT: invalid.mlir: error: target ascendc: @p has events without counters; run allocate-events before it
// TABLE-NEXT: invalid.mlir: error: target task-table: @p has events without counters; run allocate-events before it
queue.program @p ranks 2 machine "ascend-a3" {
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [] times 48
  }
}
