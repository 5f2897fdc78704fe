// RUN: REJECTED hpmoe-opt %s --split-input-file -p 'expand-tasks{limit=4}' | filecheck %s --match-full-lines

// More than anybody would read.
// CHECK: expand-tasks-invalid.mlir:[[# @LINE + 1]]:1: error: expand-tasks: @p has 5 tasks, option limit allows 4
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @a[b, :]
    writes @b[:, b]
}

// -----

// Families without queues.
// CHECK-NEXT: expand-tasks-invalid.mlir:[[# @LINE + 1]]:1: error: expand-tasks: expected IR at the queue level, found tile.program of the tile level; run assign-queues before it
tile.program @p ranks 2 {
}

// -----

// Nothing of a layer.
// CHECK-NEXT: expand-tasks-invalid.mlir: error: expand-tasks: expected IR at the queue level, made by assign-queues; found no operation of moe, comm, tile, queue
%0 = "test.op"() : () -> i32
