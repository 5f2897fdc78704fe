// RUN: REJECTED hpmoe-opt %s --split-input-file -p elide-dependencies | filecheck %s --match-full-lines

// Tensors: there are no tasks yet.
// CHECK: elide-dependencies-invalid.mlir:[[# @LINE + 1]]:1: error: elide-dependencies: expected IR at the tile level, found comm.window of the comm level; run convert-comm-to-tile before it
%counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>

// -----

// Queues: it is too late.
// CHECK-NEXT: elide-dependencies-invalid.mlir:[[# @LINE + 1]]:1: error: elide-dependencies: expected IR at the tile level, found queue.program of the queue level; elide-dependencies comes before assign-queues
queue.program @p ranks 2 machine "ascend-a3" {
}

// -----

// Nothing of a layer.
// CHECK-NEXT: elide-dependencies-invalid.mlir: error: elide-dependencies: expected IR at the tile level, made by convert-comm-to-tile; found no operation of moe, comm, tile, queue
%0 = "test.op"() : () -> i32
