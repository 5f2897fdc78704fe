// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// Two rows, copied to four.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x32xbf16>
  tile.buffer @out output : !tile.buffer<4x32xbf16>
  // CHECK: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected 2 elements of 'out' @out[:, :], to fit those of 'rows' @x[:, :], found 4
  tile.tasks @m () in () on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @out[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// Columns that are cut differently: the last block has 16 of them, and 32.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x48xbf16>
  tile.buffer @out output : !tile.buffer<2x64xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected 16 elements of 'out' @out[:, block(n by 32)], to fit those of 'rows' @x[:, block(n by 32)], found 32
  tile.tasks @m (n) in (2) on aiv
    kernel "copy_rows"
    reads @x[:, block(n by 32)]
    writes @out[:, block(n by 32)]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0, 1]],
    [] times 47
  }
}

// -----

// A product of more columns than the weights have.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<16x32xbf16>
  tile.buffer @w input : !tile.buffer<32x16xbf16>
  tile.buffer @out output : !tile.buffer<16x32xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'grouped_matmul': expected 16 elements of 'out' @out[:, :], to fit those of 'weights' @w[:, :], found 32
  tile.tasks @m () in () on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @w[:, :]
    writes @out[:, :]
  queue.order aic {
    [@m[0]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Weights that would have to be transposed.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<16x32xbf16>
  tile.buffer @w input : !tile.buffer<64x32xbf16>
  tile.buffer @out output : !tile.buffer<16x64xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'grouped_matmul': expected 32 elements of 'weights' @w[:, :], to fit those of 'rows' @x[:, :], found 64
  tile.tasks @m () in () on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @w[:, :]
    writes @out[:, :]
  queue.order aic {
    [@m[0]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Weights that are transposed and should not be.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<16x32xbf16>
  tile.buffer @w input : !tile.buffer<32x64xbf16>
  tile.buffer @out output : !tile.buffer<16x64xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'grouped_matmul': expected 32 elements of 'weights' @w[:, :], to fit those of 'rows' @x[:, :], found 64
  tile.tasks @m () in () on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 1 : i64}
    reads @x[:, :], @w[:, :]
    writes @out[:, :]
  queue.order aic {
    [@m[0]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Both halves of a row.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<16x32xbf16>
  tile.buffer @out output : !tile.buffer<16x32xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'swiglu': expected 16 elements of 'out' @out[:, :], to fit those of 'h' @x[:, :], found 32
  tile.tasks @m () in () on aiv
    kernel "swiglu"
    reads @x[:, :]
    writes @out[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// A gradient of other weights.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<8x32xbf16>
  tile.buffer @y input : !tile.buffer<8x64xbf16>
  tile.buffer @out output : !tile.buffer<64x32xf32>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'weight_gradient': expected 32 elements of 'out' @out[:, :], to fit those of 'lhs' @x[:, :], found 64
  tile.tasks @m () in () on aic
    kernel "weight_gradient" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, accumulate = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes @out[:, :]
  queue.order aic {
    [@m[0]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// A width that no kernel copies.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x24xbf16>
  tile.buffer @out output : !tile.buffer<2x24xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected a multiple of 16 elements of 'rows' @x[:, :], found 24
  tile.tasks @m () in () on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @out[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// Counts in two rows.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<8x2xi32>
  tile.buffer @out output : !tile.buffer<2x6xi32>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'count_tokens': expected 1 dimensions of 'counts' @out[:, :], found 2
  tile.tasks @m () in () on aiv
    kernel "count_tokens"
    reads @x[:, :]
    writes @out[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// Rows of the launch, copied to all rows.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @h[:, :] as of 'rows' @x[tokens(0 of 1), :], which are known at run time only
  tile.tasks @m () in () on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 1), :]
    writes @h[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// Half of the tokens, copied to a third.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @out[tokens(b of 3), :] as of 'rows' @x[tokens(b of 2), :]
  tile.tasks @m (b) in (2) on aiv
    kernel "copy_rows"
    reads @x[tokens(b of 2), :]
    writes @out[tokens(b of 3), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0, 1]],
    [] times 47
  }
}

// -----

// The halves change places.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @out[tokens((b + 1) mod 2 of 2), :] as of 'rows' @x[tokens(b of 2), :]
  tile.tasks @m (b) in (2) on aiv
    kernel "copy_rows"
    reads @x[tokens(b of 2), :]
    writes @out[tokens((b + 1) mod 2 of 2), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0, 1]],
    [] times 47
  }
}

// -----

// Weights of other tokens' copies.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<sent 16 rows, 32xbf16>
  tile.buffer @at input : !tile.buffer<tokens 8 rows, 2xi32>
  tile.buffer @out output : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'sum_copies': expected as many rows of 'out' @out[tokens(0 of 1), :] as of 'position' @at[tokens(0 of 2), :]
  tile.tasks @m () in () on aiv
    kernel "sum_copies"
    reads @x[:, :], @at[tokens(0 of 2), :]
    writes @out[tokens(0 of 1), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// Copies of which a task sees those for one expert.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'sum_copies': expected all sent rows of 'back', `:`, of which others list some, found @s[sent(0), :] of !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @m () in () on aiv
    kernel "sum_copies" using @route
    reads @s[sent(0), :], @place[tokens(0 of 1), :]
    writes @sums[tokens(0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0]],
    [] times 47
  }
}

// -----

// Tokens in a buffer of a fixed number of rows.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'gather_rows': expected all tokens rows of 'x', `:`, of which others list some, found @few[:, :] of !tile.buffer<4x48xbf16>
  tile.tasks @m (p, e) in (2, 3) on aiv
    kernel "gather_rows" using @route
    reads @few[:, :], @list[sent(p * 3 + e)]
    writes @w on p [grouped(e, rank of 2), :]
    scalars (2)
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2, 3, 4, 5]],
    [] times 47
  }
}

// -----

// Another number of experts of a token than the route has.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'gather_rows': expected top_k to be 2 as in its route, found 1
  tile.tasks @m (p, e) in (2, 3) on aiv
    kernel "gather_rows" using @route
    reads @t[:, :], @list[sent(p * 3 + e)]
    writes @w on p [grouped(e, rank of 2), :]
    scalars (1)
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2, 3, 4, 5]],
    [] times 47
  }
}

// -----

// Rows of all ranks, computed from those of one.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @h[grouped(e, g of 2), :] as of 'rows' @x[grouped(e, 0 of 1), :]
  tile.tasks @m (e, g) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, g of 2), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2, 3, 4, 5]],
    [] times 47
  }
}

// -----

// Rows of another expert.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @h[grouped((e + 1) mod 3, 0 of 1), :] as of 'rows' @x[grouped(e, 0 of 1), :]
  tile.tasks @m (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped((e + 1) mod 3, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2]],
    [] times 47
  }
}

// -----

// Rows for one rank, put to the other.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @w on (rank + p) mod 2 [grouped(e, rank of 2), :] as of 'rows' @s[sent(p * 3 + e), :]
  tile.tasks @m (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @s[sent(p * 3 + e), :]
    writes @w on (rank + p) mod 2 [grouped(e, rank of 2), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2, 3, 4, 5]],
    [] times 47
  }
}

// -----

// Chunks of other rows.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @w on p [grouped(e, rank of 2, chunk c of 2 by 8), :] as of 'rows' @s[sent(p * 3 + e, chunk c of 2 by 16), :]
  tile.tasks @m (p, e, c) in (2, 3, 2) on aiv
    kernel "copy_rows" using @route
    reads @s[sent(p * 3 + e, chunk c of 2 by 16), :]
    writes @w on p [grouped(e, rank of 2, chunk c of 2 by 8), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]],
    [] times 47
  }
}

// -----

// Rows that do not go back to where they came from.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w window at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @v window at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: shapes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @m, kernel 'copy_rows': expected as many rows of 'out' @v on s [sent(rank * 3 + e), :] as of 'rows' @x[grouped(e, (s + 1) mod 2 of 2), :]
  tile.tasks @m (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, (s + 1) mod 2 of 2), :]
    writes @v on s [sent(rank * 3 + e), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @m[0, 1, 2, 3, 4, 5]],
    [] times 47
  }
}
