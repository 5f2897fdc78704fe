// RUN: HPMOE_INVALID

// A window of fewer rows than the route can deliver.
tile.program @moe_layer ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace : !tile.buffer<sent 24 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  // CHECK: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @recv holds 12 grouped rows, 768 bytes, and @dispatch writes @recv on p [grouped(e, rank of 2), :]: up to 48 rows, 3072 bytes, on each of 2 ranks
  tile.buffer @recv window : !tile.buffer<grouped 12 rows, 32xbf16>
  tile.buffer @back window : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// Memory of what experts compute.
tile.program @moe_layer ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace : !tile.buffer<sent 24 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @a holds 47 grouped rows, 1504 bytes, and @swiglu writes @a[grouped(e, g of 2), :]: up to 48 rows, 1536 bytes, on each of 2 ranks
  tile.buffer @a workspace : !tile.buffer<grouped 47 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @recv window : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @back window : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// The window of what comes back: two rows for each token.
tile.program @moe_layer ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace : !tile.buffer<sent 24 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @recv window : !tile.buffer<grouped 48 rows, 32xbf16>
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @back holds 12 sent rows, 768 bytes, and @return writes @back on s [sent(rank * 2 + e), :]: up to 24 rows, 1536 bytes, on each of 2 ranks
  tile.buffer @back window : !tile.buffer<sent 12 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// The send order, which is written by a task without a route.
tile.program @moe_layer ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @order holds 8 sent rows, 32 bytes, and @place writes scatter @order[:]: up to 24 rows, 96 bytes, on each of 2 ranks
  tile.buffer @order workspace : !tile.buffer<sent 8 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @recv window : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @back window : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// Positions of the tokens' rows.
tile.program @moe_layer ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace : !tile.buffer<sent 24 rows, i32>
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @position holds 11 tokens rows, 88 bytes, and @place writes @position[tokens(b of 1), :]: up to 12 rows, 96 bytes, on each of 2 ranks
  tile.buffer @position workspace : !tile.buffer<tokens 11 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @recv window : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @back window : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// More tokens than the route holds.
tile.program @moe_layer ranks 2 {
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @x lets a launch bring 24 tokens of a rank, a route of the program holds 12
  tile.buffer @x input : !tile.buffer<tokens 24 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 24 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 24 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 24 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace : !tile.buffer<sent 24 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @recv window : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @back window : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// A route that would let more rows pass than the windows hold.
tile.program @moe_layer ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<1x4xi32>
  tile.buffer @route workspace : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace : !tile.buffer<sent 24 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @recv window : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @back window : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on p [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @build_route writes @route[:]: capacity: expected at most 48 rows, for which there is memory, found 96
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 96)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent(p * 2 + e)]
    writes @recv on p [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
}

// -----

// A program without a route, in which a launch brings as many tokens as its inputs hold.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @h holds 15 tokens rows, 480 bytes, and @a writes @h[tokens(0 of 1), :]: up to 16 rows, 512 bytes, on each of 1 ranks
  tile.buffer @h workspace : !tile.buffer<tokens 15 rows, 16xbf16>
  tile.tasks @a () in () on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 1), :]
    writes @h[tokens(0 of 1), :]
}

// -----

// Compiled queues.
queue.program @moe_layer ranks 2 machine "ascend-a3" counters at 5120 {
  tile.buffer @x input : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @gate input : !tile.buffer<tokens 12 rows, 2xf32>
  tile.buffer @w13 input : !tile.buffer<2x32x32xbf16>
  tile.buffer @w2 input : !tile.buffer<2x16x32xbf16>
  tile.buffer @out output : !tile.buffer<tokens 12 rows, 32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace at 9216 : !tile.buffer<1x4xi32>
  tile.buffer @route workspace at 7680 : !moe.route<12 tokens, top 2, 4 experts over 2 ranks, 48 rows>
  tile.buffer @order workspace at 8192 : !tile.buffer<sent 24 rows, i32>
  tile.buffer @position workspace at 8704 : !tile.buffer<tokens 12 rows, 2xi32>
  tile.buffer @h workspace at 0 : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @a workspace at 6144 : !tile.buffer<grouped 48 rows, 16xbf16>
  tile.buffer @y workspace at 3072 : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @counts window copies 2 at 4608 : !tile.buffer<2x8xi32>
  // CHECK-NEXT: invalid-capacity.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @recv holds 12 grouped rows, 768 bytes, and @dispatch writes @recv on (rank + p) mod 2 [grouped(e, rank of 2), :]: up to 48 rows, 3072 bytes, on each of 2 ranks
  tile.buffer @recv window at 0 : !tile.buffer<grouped 12 rows, 32xbf16>
  tile.buffer @back window at 768 : !tile.buffer<sent 24 rows, 32xbf16>
  tile.tasks @count (b) in (1) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 1), :]
    writes @chunk_counts[b, :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @chunk_counts[:, :]
    writes @counts on (rank + p) mod 2 [rank, :]
  tile.tasks @place (b) in (1) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 1), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 48)
  tile.tasks @dispatch (p, e, c) in (2, 2, 1) on aiv
    kernel "gather_rows" using @route
    reads @x[:, :], @order[sent((rank + p) mod 2 * 2 + e)]
    writes @recv on (rank + p) mod 2 [grouped(e, rank of 2), :]
    scalars (2)
  tile.tasks @matmul (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
    writes @h[grouped(e, g of 2), block(n by 256)]
  tile.tasks @swiglu (e, g, c) in (2, 2, 1) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @matmul_1 (e, g, c, n) in (2, 2, 1, 1) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
    writes @y[grouped(e, g of 2), block(n by 256)]
  tile.tasks @return (e, s, c) in (2, 2, 1) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, (rank + s) mod 2 of 2), :]
    writes @back on (rank + s) mod 2 [sent(rank * 2 + e), :]
  tile.tasks @weighted_sum (b) in (1) on aiv
    kernel "weighted_sum" using @route
    reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
    writes @out[tokens(b of 1), :]
  queue.event @count_done () count 1 line 0
  queue.event @exchange_done () count 2 copies 2 line 1
  queue.event @place_done () count 1 line 3
  queue.event @build_route_done () count 1 line 4
  queue.event @dispatch_done (2, 2) count 1 line 5
  queue.event @matmul_done (2, 2) count 1 line 9
  queue.event @swiglu_done (2, 2) count 1 line 13
  queue.event @matmul_1_done (2, 2) count 1 line 17
  queue.event @return_done () count 4 line 21
  queue.signal @count (b) to @count_done ()
  queue.signal @exchange (p) to @exchange_done () on (rank + p) mod 2
  queue.signal @place (b) to @place_done ()
  queue.signal @build_route () to @build_route_done ()
  queue.signal @dispatch (p, e, c) to @dispatch_done (e, rank) on (rank + p) mod 2 credited by @build_route
  queue.signal @matmul (e, g, c, n) to @matmul_done (e, g)
  queue.signal @swiglu (e, g, c) to @swiglu_done (e, g)
  queue.signal @matmul_1 (e, g, c, n) to @matmul_1_done (e, g)
  queue.signal @return (e, s, c) to @return_done () on (rank + s) mod 2 credited by @build_route
  queue.wait @exchange (p) for @count_done ()
  queue.wait @place (b) for @count_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.wait @dispatch (p, e, c) for @place_done ()
  queue.wait @dispatch (p, e, c) for @build_route_done ()
  queue.wait @matmul (e, g, c, n) for @dispatch_done (e, g)
  queue.wait @matmul (e, g, c, n) for @build_route_done ()
  queue.wait @swiglu (e, g, c) for @matmul_done (e, g)
  queue.wait @matmul_1 (e, g, c, n) for @swiglu_done (e, g)
  queue.wait @return (e, s, c) for @matmul_1_done (e, (rank + s) mod 2)
  queue.wait @weighted_sum (b) for @return_done ()
  queue.wait @weighted_sum (b) for @place_done ()
  queue.order aic {
    [@matmul[0, 2], @matmul_1[0, 2]],
    [@matmul[1, 3], @matmul_1[1, 3]],
    [] times 22
  }
  queue.order aiv {
    [@count[0], @build_route[0], @dispatch[3], @swiglu[3], @return[3]],
    [@exchange[0], @dispatch[0], @swiglu[0], @return[0], @weighted_sum[0]],
    [@exchange[1], @dispatch[2], @swiglu[1], @return[1]],
    [@place[0], @dispatch[1], @swiglu[2], @return[2]],
    [] times 44
  }
}
