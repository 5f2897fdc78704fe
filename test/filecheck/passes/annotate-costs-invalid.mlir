// RUN: REJECTED hpmoe-opt %s --split-input-file -p annotate-costs | filecheck %s --match-full-lines

// A queue program has its order already.
// CHECK: annotate-costs-invalid.mlir:[[# @LINE + 1]]:1: error: annotate-costs: expected IR at the tile level, found queue.program of the queue level; annotate-costs comes before assign-queues
queue.program @p ranks 1 machine "ascend-a3" {
}

// -----

// A cost names its three units.
// CHECK-NEXT: annotate-costs-invalid.mlir:[[# @LINE + 5]]:19: error: Expected 'vector'
tile.tasks @t () in () on aiv
  kernel "count_tokens"
  reads @i[:, :]
  writes @o[:, :]
  cost <0 macs, 1 elements, 2 bytes>
