// RUN: REJECTED hpmoe-opt %s --split-input-file -p plan-memory | filecheck %s --match-full-lines

// Tensors: there are no tasks yet.
// CHECK: plan-memory-invalid.mlir:[[# @LINE + 1]]:1: error: plan-memory: expected IR at the tile level, found comm.window of the comm level; run convert-comm-to-tile before it
%counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>

// -----

// Queues: it is too late.
// CHECK-NEXT: plan-memory-invalid.mlir:[[# @LINE + 1]]:1: error: plan-memory: expected IR at the tile level, found queue.program of the queue level; plan-memory comes before assign-queues
queue.program @p ranks 2 machine "ascend-a3" {
}

// -----

// Nothing of a layer.
// CHECK-NEXT: plan-memory-invalid.mlir: error: plan-memory: expected IR at the tile level, made by convert-comm-to-tile; found no operation of moe, comm, tile, queue
%0 = "test.op"() : () -> i32

// -----

// More than the device memory of the machine: all buffers of a program count.
// CHECK-NEXT: plan-memory-invalid.mlir:[[# @LINE + 1]]:1: error: plan-memory: @large needs 80000000000 bytes of device memory (24000000000 for arguments and results, 16000000000 of workspace, 40000000000 of windows), ascend-a3 has 68719476736: lower the capacity, or allow it by the option 'over-memory'
tile.program @large ranks 2 {
  tile.buffer @x input : !tile.buffer<16000x500000xbf16>
  tile.buffer @y output : !tile.buffer<8000x500000xbf16>
  tile.buffer @h workspace : !tile.buffer<16000x500000xbf16>
  tile.buffer @w window copies 2 : !tile.buffer<20000x500000xbf16>
}
