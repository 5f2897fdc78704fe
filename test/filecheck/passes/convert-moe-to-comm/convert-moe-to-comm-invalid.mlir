// RUN: REJECTED hpmoe-opt %s --split-input-file -p convert-moe-to-comm | filecheck %s --match-full-lines

// The pass has run already.
// CHECK: convert-moe-to-comm-invalid.mlir:[[# @LINE + 1]]:1: error: convert-moe-to-comm: expected IR at the moe level, found comm.window of the comm level; it has run already
%counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>

// -----

// IR that no pass brings back up.
// CHECK-NEXT: convert-moe-to-comm-invalid.mlir:[[# @LINE + 1]]:1: error: convert-moe-to-comm: expected IR at the moe level, found tile.program of the tile level; convert-moe-to-comm comes before convert-comm-to-tile
tile.program @layer ranks 2 {
}

// -----

// No layer at all.
// CHECK-NEXT: convert-moe-to-comm-invalid.mlir: error: convert-moe-to-comm: expected IR at the moe level, made by a front end; found no operation of moe, comm, tile, queue
%0 = "test.op"() : () -> i32
