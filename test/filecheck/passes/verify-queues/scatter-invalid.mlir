// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// A product of which one share is computed by nobody.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 3, found 0, 1, 2
  tile.tasks @s (i) in (3) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
    scalars (i, 4)
  queue.order aic {
    [@s[0, 1, 2]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Two tasks compute the same share.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 3, found 0, 0, 2, 2
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
    scalars (i floordiv 2 * 2, 4)
  queue.order aic {
    [@s[0, 1, 2, 3]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// More tasks than shares.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 2, found 0, 1, 2, 3
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
    scalars (i, 3)
  queue.order aic {
    [@s[0, 1, 2, 3]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Blocks without end.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 0, found 0, 1, 2, 3
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
    scalars (i, 0)
  queue.order aic {
    [@s[0, 1, 2, 3]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Shares that begin at one.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 3, found 1, 2, 3, 4
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
    scalars (i + 1, 4)
  queue.order aic {
    [@s[0, 1, 2, 3]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Each task says another number of shares.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 0, found 0, 1, 2, 3
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
    scalars (i, i + 1)
  queue.order aic {
    [@s[0, 1, 2, 3]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Each product needs all of its shares.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<64x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h output : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @s on rank 0 writes scatter @h: expected a task for each share of its product, 0 to 3, found 0, 2
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul_share" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[block(i mod 2 by 32), :], @y[:, :]
    writes scatter @h[block(i mod 2 by 32), :]
    scalars (i, 4)
  queue.order aic {
    [@s[0, 1, 2, 3]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Tokens of which the second half is placed by nobody.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @counts input : !tile.buffer<2x6xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 2xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place on rank 0 writes scatter @order: expected a task for each part of the tokens, 0 to 1, found 0
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 2), :], @counts[:, :]
    writes scatter @order[:], @position[tokens(b of 2), :]
    scalars (b)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0]],
    [] times 47
  }
}

// -----

// Tokens that are placed twice.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @counts input : !tile.buffer<2x6xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 2xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place on rank 0 writes scatter @order: expected a task for each part of the tokens, 0 to 1, found 0, 0
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids[tokens(0 of 2), :], @counts[:, :]
    writes scatter @order[:], @position[tokens(0 of 2), :]
    scalars (b)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0, 1]],
    [] times 47
  }
}

// -----

// The place of another part of the tokens.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @counts input : !tile.buffer<2x6xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 2xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place writes scatter @order: expected the number of each task's part of the tokens as its scalar 'chunk'
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 2), :], @counts[:, :]
    writes scatter @order[:], @position[tokens(b of 2), :]
    scalars (1)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0, 1]],
    [] times 47
  }
}

// -----

// Counts of other parts.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @counts input : !tile.buffer<3x6xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 2xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place writes scatter @order: expected counts of 2 parts of the tokens in @counts, found !tile.buffer<3x6xi32>
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 2), :], @counts[:, :]
    writes scatter @order[:], @position[tokens(b of 2), :]
    scalars (b)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0, 1]],
    [] times 47
  }
}

// -----

// Rows that are no tokens.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @ids2 input : !tile.buffer<2x7x2xi32>
  tile.buffer @counts input : !tile.buffer<2x6xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position2 output : !tile.buffer<2x7x2xi32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 2xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place writes scatter @order: expected tasks that read tokens(...) and write `[:]`, as kernel 'place_tokens' places the rows of its tokens
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids2[b, :, :], @counts[:, :]
    writes scatter @order[:], @position2[b, :, :]
    scalars (b)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0, 1]],
    [] times 47
  }
}

// -----

// Tokens of more experts than the order has room for.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 4xi32>
  tile.buffer @counts input : !tile.buffer<2x6xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 4xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place writes scatter @order: expected 28 elements for 7 tokens of 4 experts each, found !tile.buffer<sent 14 rows, i32>
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 2), :], @counts[:, :]
    writes scatter @order[:], @position[tokens(b of 2), :]
    scalars (b)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0, 1]],
    [] times 47
  }
}

// -----

// Only a part of the order.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @counts input : !tile.buffer<2x6xi32>
  tile.buffer @order2 workspace at 512 : !tile.buffer<14xi32>
  tile.buffer @order workspace at 0 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position output : !tile.buffer<tokens 7 rows, 2xi32>
  // CHECK-NEXT: scatter-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @place writes scatter @order2: expected tasks that read tokens(...) and write `[:]`, as kernel 'place_tokens' places the rows of its tokens
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 2), :], @counts[:, :]
    writes scatter @order2[block(0 by 7)], @position[tokens(b of 2), :]
    scalars (b)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@place[0, 1]],
    [] times 47
  }
}
