// RUN: HPMOE_INVALID

// A tile for each expert is the least.
// CHECK: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul: @recv[tile(t of 2 by 16), :]: expected a tile for each of 3 local experts, found 2
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 2 by 16), :], @w[expert(t of 2 by 16), :, :]
    writes @y[tile(t of 2 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 2 by 16)) count 1
}

// -----

// More tasks than tiles.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul: @recv[tile(t of 5 by 16), :]: t is 0 to 5, expected 0 to 4
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (6) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}

// -----

// The experts of all ranks.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul: @w[expert(t of 5 by 16), :, :]: dimension 0 of !tile.buffer<6x48x48xbf16>: expected the 3 experts of a rank
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<6x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}

// -----

// Another cut for the expert, with too few tiles.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul: @w[expert(t of 2 by 16), :, :]: expected a tile for each of 3 local experts, found 2
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 2 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}

// -----

// The expert of a tile that there is not.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul: @w[expert(t + 1 of 5 by 16), :, :]: t + 1 is 1 to 5, expected 0 to 4
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t + 1 of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}

// -----

// Rows that are not grouped.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul: @recv[tile(t of 5 by 16), :]: dimension 0 of !tile.buffer<sent 20 rows, 48xbf16> does not have rows of that kind
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<sent 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}

// -----

// Events that are not those of the tiles.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul -> @copy: @copy: tiles(e, s of 2, of 5 by 16): expected events (5,), found (6,)
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (6) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}

// -----

// A range for one coordinate, and another coordinate that the events do not have.
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  // CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:3: error: tile.dependence: a family of events with 1 coordinates needs as many expressions on each side, found 1 and 2
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16), e) count 1
}

// -----

// An expert that the rank does not have.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul -> @copy: @copy: event coordinate e + 1 is 1 to 3, expected 0 to 2
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e + 1, s of 2, of 5 by 16)) count 1
}

// -----

// Fewer tiles than experts.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul -> @copy: @copy: tiles(e, s of 2, of 2 by 16): expected a tile for each of 3 local experts, found 2
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @z[grouped(e, s of 2), :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 2 by 16)) count 1
}

// -----

// A wait that looks nothing up.
// CHECK-NEXT: invalid-tiles.mlir:[[# @LINE + 1]]:1: error: tile.program: @matmul -> @copy: @copy: tiles(e, s of 2, of 5 by 16): a range of events needs `using` a route
tile.program @p ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (t) in (5) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, :]
    writes @y[tile(t of 5 by 16), :]
  tile.tasks @copy (e, s) in (3, 2) on aiv
    kernel "copy_rows"
    reads @y[:, :]
    writes @z[:, :]
  tile.dependence @matmul (t) -> @copy (e, s) on @y
    events (5) from (t) to (tiles(e, s of 2, of 5 by 16)) count 1
}
