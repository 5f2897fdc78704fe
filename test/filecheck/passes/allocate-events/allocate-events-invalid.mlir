// RUN: REJECTED hpmoe-opt %s --split-input-file -p allocate-events | filecheck %s --match-full-lines

// Where the counters begin depends on where the windows end.
queue.program @p ranks 2 machine "ascend-a3" {
  // CHECK: allocate-events-invalid.mlir:[[# @LINE + 1]]:3: error: allocate-events: window @w has no offset; run plan-memory before it
  tile.buffer @w window : !tile.buffer<5x6xi32>
}

// -----

// Dependences are not events yet.
// CHECK-NEXT: allocate-events-invalid.mlir:[[# @LINE + 1]]:1: error: allocate-events: expected IR at the queue level, found tile.program of the tile level; run assign-queues before it
tile.program @p ranks 2 {
}

// -----

// Nothing of a layer.
// CHECK-NEXT: allocate-events-invalid.mlir: error: allocate-events: expected IR at the queue level, made by assign-queues; found no operation of moe, comm, tile, queue
%0 = "test.op"() : () -> i32
