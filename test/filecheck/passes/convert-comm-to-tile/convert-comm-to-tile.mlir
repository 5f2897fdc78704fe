// RUN: hpmoe-opt %s --split-input-file -p convert-comm-to-tile | filecheck %s
// RUN: hpmoe-opt %s --split-input-file -p 'convert-comm-to-tile{source-groups=1 row-chunks=2 put-chunks=3 token-chunks=2 task-cols=16 tile-m=16 tile-n=32 tile-k=48}' | filecheck %s --check-prefix=FINE

// A layer on two ranks. By default a group for each source, one chunk, the largest matrix tile of the machine, parts of 16 tokens.
// Cut by hand: no groups, two chunks at multiples of 16 rows, three chunks of each put, blocks of 16 columns, two parts of the tokens.
func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> tensor<?x48xbf16, #moe.tokens<7 rows>> {
  %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x6xi32>>
  %own_counts = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> tensor<2x6xi32>
  %announced = comm.exchange %own_counts into %counts : tensor<2x6xi32>, !comm.window<tensor<2x2x6xi32>>
  %all_counts = comm.wait %counts after %announced : !comm.window<tensor<2x2x6xi32>>
  %route = comm.route %ids, %all_counts : tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<2x2x6xi32> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  %recv_window = comm.window "recv" : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
  %sent = comm.put dispatch %x into %recv_window by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  %recv = comm.wait %recv_window after %sent : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
  %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
  %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
  %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
  %back_window = comm.window "back" : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
  %returned = comm.put return %y into %back_window by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  %back = comm.wait %back_window after %returned : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
  %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
  func.return %out : tensor<?x48xbf16, #moe.tokens<7 rows>>
}

// CHECK:      tile.program @layer ranks 2 (@x, @ids, @gate, @w13, @w2) -> (@out, @status: status) {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
// CHECK-NEXT:   tile.buffer @gate input : !tile.buffer<tokens 7 rows, 2xf32>
// CHECK-NEXT:   tile.buffer @w13 input : !tile.buffer<3x48x32xbf16>
// CHECK-NEXT:   tile.buffer @w2 input : !tile.buffer<3x16x48xbf16>
// CHECK-NEXT:   tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// CHECK-NEXT:   tile.buffer @chunk_counts workspace : !tile.buffer<1x6xi32>
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @order workspace : !tile.buffer<sent 14 rows, i32>
// CHECK-NEXT:   tile.buffer @position workspace : !tile.buffer<tokens 7 rows, 2xi32>
// CHECK-NEXT:   tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 32xbf16>
// CHECK-NEXT:   tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 16xbf16>
// CHECK-NEXT:   tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @counts window copies 2 : !tile.buffer<2x12xi32>
// CHECK-NEXT:   tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
// CHECK-NEXT:   tile.tasks @count (b) in (1) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 1), :]
// CHECK-NEXT:     writes @chunk_counts[b, :]
// CHECK-NEXT:   tile.tasks @exchange (p) in (2) on aiv
// CHECK-NEXT:     kernel "exchange_counts"
// CHECK-NEXT:     reads @chunk_counts[:, :]
// CHECK-NEXT:     writes @counts on p [rank, :]
// CHECK-NEXT:   tile.tasks @place (b) in (1) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
// CHECK-NEXT:     writes scatter @order[:], @position[tokens(b of 1), :]
// CHECK-NEXT:     scalars (b)
// CHECK-NEXT:   tile.tasks @build_route () in () on aiv
// CHECK-NEXT:     kernel "build_route"
// CHECK-NEXT:     reads @counts[:, :]
// CHECK-NEXT:     writes @route[:], @status[:]
// CHECK-NEXT:     scalars (rank, 20)
// CHECK-NEXT:   tile.tasks @dispatch (p, e, c) in (2, 3, 1) on aiv
// CHECK-NEXT:     kernel "gather_rows" using @route
// CHECK-NEXT:     reads @x[:, :], @order[sent(p * 3 + e)]
// CHECK-NEXT:     writes @recv on p [grouped(e, rank of 2), :]
// CHECK-NEXT:     scalars (2)
// CHECK-NEXT:   tile.tasks @matmul (e, g, c, n) in (3, 2, 1, 1) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 256)]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), block(n by 256)]
// CHECK-NEXT:   tile.tasks @swiglu (e, g, c) in (3, 2, 1) on aiv
// CHECK-NEXT:     kernel "swiglu" using @route
// CHECK-NEXT:     reads @h[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @a[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.tasks @matmul_1 (e, g, c, n) in (3, 2, 1, 1) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 256)]
// CHECK-NEXT:     writes @y[grouped(e, g of 2), block(n by 256)]
// CHECK-NEXT:   tile.tasks @return (e, s, c) in (3, 2, 1) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @y[grouped(e, s of 2), :]
// CHECK-NEXT:     writes @back on s [sent(rank * 3 + e), :]
// CHECK-NEXT:   tile.tasks @weighted_sum (b) in (1) on aiv
// CHECK-NEXT:     kernel "weighted_sum" using @route
// CHECK-NEXT:     reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
// CHECK-NEXT:     writes @out[tokens(b of 1), :]
// CHECK-NEXT: }

// FINE:      tile.program @layer ranks 2 (@x, @ids, @gate, @w13, @w2) -> (@out, @status: status) {
// FINE-NEXT:   tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
// FINE-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
// FINE-NEXT:   tile.buffer @gate input : !tile.buffer<tokens 7 rows, 2xf32>
// FINE-NEXT:   tile.buffer @w13 input : !tile.buffer<3x48x32xbf16>
// FINE-NEXT:   tile.buffer @w2 input : !tile.buffer<3x16x48xbf16>
// FINE-NEXT:   tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
// FINE-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// FINE-NEXT:   tile.buffer @chunk_counts workspace : !tile.buffer<2x6xi32>
// FINE-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// FINE-NEXT:   tile.buffer @order workspace : !tile.buffer<sent 14 rows, i32>
// FINE-NEXT:   tile.buffer @position workspace : !tile.buffer<tokens 7 rows, 2xi32>
// FINE-NEXT:   tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 32xbf16>
// FINE-NEXT:   tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 16xbf16>
// FINE-NEXT:   tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// FINE-NEXT:   tile.buffer @counts window copies 2 : !tile.buffer<2x12xi32>
// FINE-NEXT:   tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
// FINE-NEXT:   tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
// FINE-NEXT:   tile.tasks @count (b) in (2) on aiv
// FINE-NEXT:     kernel "count_tokens"
// FINE-NEXT:     reads @ids[tokens(b of 2), :]
// FINE-NEXT:     writes @chunk_counts[b, :]
// FINE-NEXT:   tile.tasks @exchange (p) in (2) on aiv
// FINE-NEXT:     kernel "exchange_counts"
// FINE-NEXT:     reads @chunk_counts[:, :]
// FINE-NEXT:     writes @counts on p [rank, :]
// FINE-NEXT:   tile.tasks @place (b) in (2) on aiv
// FINE-NEXT:     kernel "place_tokens"
// FINE-NEXT:     reads @ids[tokens(b of 2), :], @chunk_counts[:, :]
// FINE-NEXT:     writes scatter @order[:], @position[tokens(b of 2), :]
// FINE-NEXT:     scalars (b)
// FINE-NEXT:   tile.tasks @build_route () in () on aiv
// FINE-NEXT:     kernel "build_route"
// FINE-NEXT:     reads @counts[:, :]
// FINE-NEXT:     writes @route[:], @status[:]
// FINE-NEXT:     scalars (rank, 20)
// FINE-NEXT:   tile.tasks @dispatch (p, e, c) in (2, 3, 3) on aiv
// FINE-NEXT:     kernel "gather_rows" using @route
// FINE-NEXT:     reads @x[:, :], @order[sent(p * 3 + e, chunk c of 3 by 16)]
// FINE-NEXT:     writes @recv on p [grouped(e, rank of 2, chunk c of 3 by 16), :]
// FINE-NEXT:     scalars (2)
// FINE-NEXT:   tile.tasks @matmul (e, g, c, n) in (3, 1, 2, 2) on aic
// FINE-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 32 : i64, tile_k = 48 : i64, transpose_rhs = 0 : i64} using @route
// FINE-NEXT:     reads @recv[grouped(e, g of 1, chunk c of 2 by 16), :], @w13[e, :, block(n by 16)]
// FINE-NEXT:     writes @h[grouped(e, g of 1, chunk c of 2 by 16), block(n by 16)]
// FINE-NEXT:   tile.tasks @swiglu (e, g, c) in (3, 1, 2) on aiv
// FINE-NEXT:     kernel "swiglu" using @route
// FINE-NEXT:     reads @h[grouped(e, g of 1, chunk c of 2 by 16), :]
// FINE-NEXT:     writes @a[grouped(e, g of 1, chunk c of 2 by 16), :]
// FINE-NEXT:   tile.tasks @matmul_1 (e, g, c, n) in (3, 1, 2, 3) on aic
// FINE-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 32 : i64, tile_k = 48 : i64, transpose_rhs = 0 : i64} using @route
// FINE-NEXT:     reads @a[grouped(e, g of 1, chunk c of 2 by 16), :], @w2[e, :, block(n by 16)]
// FINE-NEXT:     writes @y[grouped(e, g of 1, chunk c of 2 by 16), block(n by 16)]
// FINE-NEXT:   tile.tasks @return (e, s, c) in (3, 2, 3) on aiv
// FINE-NEXT:     kernel "copy_rows" using @route
// FINE-NEXT:     reads @y[grouped(e, s of 2, chunk c of 3 by 16), :]
// FINE-NEXT:     writes @back on s [sent(rank * 3 + e, chunk c of 3 by 16), :]
// FINE-NEXT:   tile.tasks @weighted_sum (b) in (2) on aiv
// FINE-NEXT:     kernel "weighted_sum" using @route
// FINE-NEXT:     reads @back[:, :], @position[tokens(b of 2), :], @gate[tokens(b of 2), :]
// FINE-NEXT:     writes @out[tokens(b of 2), :]
// FINE-NEXT: }

// -----

// One rank, f16, transposed weights, rows of the experts as a result: names of buffers where values have none.
func.func @half(%arg: tensor<?x32xf16, #moe.tokens<5 rows>>, %ids: tensor<?x1xi32, #moe.tokens<5 rows>>, %gate: tensor<?x1xf32, #moe.tokens<5 rows>>, %w: tensor<2x48x32xf16, #moe.experts<2 over 1 ranks>>) -> (tensor<?x48xf16, #moe.grouped<5 rows>>, tensor<?x32xf16, #moe.tokens<5 rows>>) {
  %counts = comm.window "counts" per_launch : !comm.window<tensor<1x2x2xi32>>
  %own_counts = comm.count_tokens %ids : tensor<?x1xi32, #moe.tokens<5 rows>> -> tensor<2x2xi32>
  %announced = comm.exchange %own_counts into %counts : tensor<2x2xi32>, !comm.window<tensor<1x2x2xi32>>
  %all_counts = comm.wait %counts after %announced : !comm.window<tensor<1x2x2xi32>>
  %0 = comm.route %ids, %all_counts : tensor<?x1xi32, #moe.tokens<5 rows>>, tensor<1x2x2xi32> -> !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows>
  %recv_window = comm.window "recv" : !comm.window<tensor<?x32xf16, #moe.grouped<5 rows>>>
  %sent = comm.put dispatch %arg into %recv_window by %0 : tensor<?x32xf16, #moe.tokens<5 rows>>, !comm.window<tensor<?x32xf16, #moe.grouped<5 rows>>>, !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows>
  %1 = comm.wait %recv_window after %sent : !comm.window<tensor<?x32xf16, #moe.grouped<5 rows>>>
  %2 = moe.grouped_matmul %1, %w by %0 {transpose_rhs} : tensor<?x32xf16, #moe.grouped<5 rows>>, tensor<2x48x32xf16, #moe.experts<2 over 1 ranks>>, !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows> -> tensor<?x48xf16, #moe.grouped<5 rows>>
  %back_window = comm.window "back" : !comm.window<tensor<?x32xf16, #moe.sent<5 rows>>>
  %returned = comm.put return %1 into %back_window by %0 : tensor<?x32xf16, #moe.grouped<5 rows>>, !comm.window<tensor<?x32xf16, #moe.sent<5 rows>>>, !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows>
  %back = comm.wait %back_window after %returned : !comm.window<tensor<?x32xf16, #moe.sent<5 rows>>>
  %3 = moe.weighted_sum %back, %gate by %0 : tensor<?x32xf16, #moe.sent<5 rows>>, tensor<?x1xf32, #moe.tokens<5 rows>>, !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows> -> tensor<?x32xf16, #moe.tokens<5 rows>>
  func.return %2, %3 : tensor<?x48xf16, #moe.grouped<5 rows>>, tensor<?x32xf16, #moe.tokens<5 rows>>
}

// CHECK:      tile.program @half ranks 1 (@arg, @ids, @gate, @w) -> (@out0, @out1, @status: status) {
// CHECK-NEXT:   tile.buffer @arg input : !tile.buffer<tokens 5 rows, 32xf16>
// CHECK-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 5 rows, 1xi32>
// CHECK-NEXT:   tile.buffer @gate input : !tile.buffer<tokens 5 rows, 1xf32>
// CHECK-NEXT:   tile.buffer @w input : !tile.buffer<2x48x32xf16>
// CHECK-NEXT:   tile.buffer @out0 output : !tile.buffer<grouped 5 rows, 48xf16>
// CHECK-NEXT:   tile.buffer @out1 output : !tile.buffer<tokens 5 rows, 32xf16>
// CHECK-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// CHECK-NEXT:   tile.buffer @chunk_counts workspace : !tile.buffer<1x2xi32>
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows>
// CHECK-NEXT:   tile.buffer @order workspace : !tile.buffer<sent 5 rows, i32>
// CHECK-NEXT:   tile.buffer @position workspace : !tile.buffer<tokens 5 rows, 1xi32>
// CHECK-NEXT:   tile.buffer @counts window copies 2 : !tile.buffer<1x4xi32>
// CHECK-NEXT:   tile.buffer @recv window : !tile.buffer<grouped 5 rows, 32xf16>
// CHECK-NEXT:   tile.buffer @back window : !tile.buffer<sent 5 rows, 32xf16>
// CHECK-NEXT:   tile.tasks @count (b) in (1) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 1), :]
// CHECK-NEXT:     writes @chunk_counts[b, :]
// CHECK-NEXT:   tile.tasks @exchange (p) in (1) on aiv
// CHECK-NEXT:     kernel "exchange_counts"
// CHECK-NEXT:     reads @chunk_counts[:, :]
// CHECK-NEXT:     writes @counts on p [rank, :]
// CHECK-NEXT:   tile.tasks @place (b) in (1) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 1), :], @chunk_counts[:, :]
// CHECK-NEXT:     writes scatter @order[:], @position[tokens(b of 1), :]
// CHECK-NEXT:     scalars (b)
// CHECK-NEXT:   tile.tasks @build_route () in () on aiv
// CHECK-NEXT:     kernel "build_route"
// CHECK-NEXT:     reads @counts[:, :]
// CHECK-NEXT:     writes @route[:], @status[:]
// CHECK-NEXT:     scalars (rank, 5)
// CHECK-NEXT:   tile.tasks @dispatch (p, e, c) in (1, 2, 1) on aiv
// CHECK-NEXT:     kernel "gather_rows" using @route
// CHECK-NEXT:     reads @arg[:, :], @order[sent(p * 2 + e)]
// CHECK-NEXT:     writes @recv on p [grouped(e, rank of 1), :]
// CHECK-NEXT:     scalars (1)
// CHECK-NEXT:   tile.tasks @matmul (e, g, c, n) in (2, 1, 1, 1) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 1 : i64} using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 1), :], @w[e, block(n by 256), :]
// CHECK-NEXT:     writes @out0[grouped(e, g of 1), block(n by 256)]
// CHECK-NEXT:   tile.tasks @return (e, s, c) in (2, 1, 1) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @recv[grouped(e, s of 1), :]
// CHECK-NEXT:     writes @back on s [sent(rank * 2 + e), :]
// CHECK-NEXT:   tile.tasks @weighted_sum (b) in (1) on aiv
// CHECK-NEXT:     kernel "weighted_sum" using @route
// CHECK-NEXT:     reads @back[:, :], @position[tokens(b of 1), :], @gate[tokens(b of 1), :]
// CHECK-NEXT:     writes @out1[tokens(b of 1), :]
// CHECK-NEXT: }

// FINE:      tile.program @half ranks 1 (@arg, @ids, @gate, @w) -> (@out0, @out1, @status: status) {
// FINE-NEXT:   tile.buffer @arg input : !tile.buffer<tokens 5 rows, 32xf16>
// FINE-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 5 rows, 1xi32>
// FINE-NEXT:   tile.buffer @gate input : !tile.buffer<tokens 5 rows, 1xf32>
// FINE-NEXT:   tile.buffer @w input : !tile.buffer<2x48x32xf16>
// FINE-NEXT:   tile.buffer @out0 output : !tile.buffer<grouped 5 rows, 48xf16>
// FINE-NEXT:   tile.buffer @out1 output : !tile.buffer<tokens 5 rows, 32xf16>
// FINE-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// FINE-NEXT:   tile.buffer @chunk_counts workspace : !tile.buffer<2x2xi32>
// FINE-NEXT:   tile.buffer @route workspace : !moe.route<5 tokens, top 1, 2 experts over 1 ranks, 5 rows>
// FINE-NEXT:   tile.buffer @order workspace : !tile.buffer<sent 5 rows, i32>
// FINE-NEXT:   tile.buffer @position workspace : !tile.buffer<tokens 5 rows, 1xi32>
// FINE-NEXT:   tile.buffer @counts window copies 2 : !tile.buffer<1x4xi32>
// FINE-NEXT:   tile.buffer @recv window : !tile.buffer<grouped 5 rows, 32xf16>
// FINE-NEXT:   tile.buffer @back window : !tile.buffer<sent 5 rows, 32xf16>
// FINE-NEXT:   tile.tasks @count (b) in (2) on aiv
// FINE-NEXT:     kernel "count_tokens"
// FINE-NEXT:     reads @ids[tokens(b of 2), :]
// FINE-NEXT:     writes @chunk_counts[b, :]
// FINE-NEXT:   tile.tasks @exchange (p) in (1) on aiv
// FINE-NEXT:     kernel "exchange_counts"
// FINE-NEXT:     reads @chunk_counts[:, :]
// FINE-NEXT:     writes @counts on p [rank, :]
// FINE-NEXT:   tile.tasks @place (b) in (2) on aiv
// FINE-NEXT:     kernel "place_tokens"
// FINE-NEXT:     reads @ids[tokens(b of 2), :], @chunk_counts[:, :]
// FINE-NEXT:     writes scatter @order[:], @position[tokens(b of 2), :]
// FINE-NEXT:     scalars (b)
// FINE-NEXT:   tile.tasks @build_route () in () on aiv
// FINE-NEXT:     kernel "build_route"
// FINE-NEXT:     reads @counts[:, :]
// FINE-NEXT:     writes @route[:], @status[:]
// FINE-NEXT:     scalars (rank, 5)
// FINE-NEXT:   tile.tasks @dispatch (p, e, c) in (1, 2, 3) on aiv
// FINE-NEXT:     kernel "gather_rows" using @route
// FINE-NEXT:     reads @arg[:, :], @order[sent(p * 2 + e, chunk c of 3 by 16)]
// FINE-NEXT:     writes @recv on p [grouped(e, rank of 1, chunk c of 3 by 16), :]
// FINE-NEXT:     scalars (1)
// FINE-NEXT:   tile.tasks @matmul (e, g, c, n) in (2, 1, 2, 3) on aic
// FINE-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 32 : i64, tile_k = 48 : i64, transpose_rhs = 1 : i64} using @route
// FINE-NEXT:     reads @recv[grouped(e, g of 1, chunk c of 2 by 16), :], @w[e, block(n by 16), :]
// FINE-NEXT:     writes @out0[grouped(e, g of 1, chunk c of 2 by 16), block(n by 16)]
// FINE-NEXT:   tile.tasks @return (e, s, c) in (2, 1, 3) on aiv
// FINE-NEXT:     kernel "copy_rows" using @route
// FINE-NEXT:     reads @recv[grouped(e, s of 1, chunk c of 3 by 16), :]
// FINE-NEXT:     writes @back on s [sent(rank * 2 + e, chunk c of 3 by 16), :]
// FINE-NEXT:   tile.tasks @weighted_sum (b) in (2) on aiv
// FINE-NEXT:     kernel "weighted_sum" using @route
// FINE-NEXT:     reads @back[:, :], @position[tokens(b of 2), :], @gate[tokens(b of 2), :]
// FINE-NEXT:     writes @out1[tokens(b of 2), :]
// FINE-NEXT: }
