// RUN: hpmoe-opt %s -p 'lower-moe{task-cols=16 token-chunks=2 policy=depth-first{ahead=1}}' | filecheck %s

// A layer on two ranks, all the way to queues.
!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!h = tensor<?x32xbf16, #moe.grouped<20 rows>>
!a = tensor<?x16xbf16, #moe.grouped<20 rows>>
!w13 = tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>
!w2 = tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>
func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h
  %a = moe.swiglu %h : !h -> !a
  %y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}

// CHECK:      queue.program @layer ranks 2 machine "ascend-a3" counters at 4096 (@x, @ids, @gate, @w13, @w2) -> (@out, @status: status) {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
// CHECK-NEXT:   tile.buffer @gate input : !tile.buffer<tokens 7 rows, 2xf32>
// CHECK-NEXT:   tile.buffer @w13 input : !tile.buffer<3x48x32xbf16>
// CHECK-NEXT:   tile.buffer @w2 input : !tile.buffer<3x16x48xbf16>
// CHECK-NEXT:   tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// CHECK-NEXT:   tile.buffer @chunk_counts workspace at 5120 : !tile.buffer<2x6xi32>
// CHECK-NEXT:   tile.buffer @route workspace at 4608 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @order workspace at 5632 : !tile.buffer<sent 14 rows, i32>
// CHECK-NEXT:   tile.buffer @position workspace at 6144 : !tile.buffer<tokens 7 rows, 2xi32>
// CHECK-NEXT:   tile.buffer @h workspace at 2048 : !tile.buffer<grouped 20 rows, 32xbf16>
// CHECK-NEXT:   tile.buffer @a workspace at 3584 : !tile.buffer<grouped 20 rows, 16xbf16>
// CHECK-NEXT:   tile.buffer @y workspace at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @counts window copies 2 at 3584 : !tile.buffer<2x12xi32>
// CHECK-NEXT:   tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @back window at 2048 : !tile.buffer<sent 14 rows, 48xbf16>
// CHECK-NEXT:   tile.tasks @count (b) in (2) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 2), :]
// CHECK-NEXT:     writes @chunk_counts[b, :]
// CHECK-NEXT:   tile.tasks @exchange (p) in (2) on aiv
// CHECK-NEXT:     kernel "exchange_counts"
// CHECK-NEXT:     reads @chunk_counts[:, :]
// CHECK-NEXT:     writes @counts on (rank + p) mod 2 [rank, :]
// CHECK-NEXT:   tile.tasks @place (b) in (2) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 2), :], @chunk_counts[:, :]
// CHECK-NEXT:     writes scatter @order[:], @position[tokens(b of 2), :]
// CHECK-NEXT:     scalars (b)
// CHECK-NEXT:   tile.tasks @build_route () in () on aiv
// CHECK-NEXT:     kernel "build_route"
// CHECK-NEXT:     reads @counts[:, :]
// CHECK-NEXT:     writes @route[:], @status[:]
// CHECK-NEXT:     scalars (rank, 20)
// CHECK-NEXT:   tile.tasks @dispatch (p, e, c) in (2, 3, 1) on aiv
// CHECK-NEXT:     kernel "gather_rows" using @route
// CHECK-NEXT:     reads @x[:, :], @order[sent((rank + p) mod 2 * 3 + e)]
// CHECK-NEXT:     writes @recv on (rank + p) mod 2 [grouped(e, rank of 2), :]
// CHECK-NEXT:     scalars (2)
// CHECK-NEXT:   tile.tasks @matmul (e, g, c, n) in (3, 2, 1, 2) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 16)]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), block(n by 16)]
// CHECK-NEXT:   tile.tasks @swiglu (e, g, c) in (3, 2, 1) on aiv
// CHECK-NEXT:     kernel "swiglu" using @route
// CHECK-NEXT:     reads @h[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @a[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.tasks @matmul_1 (e, g, c, n) in (3, 2, 1, 3) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @a[grouped(e, g of 2), :], @w2[e, :, block(n by 16)]
// CHECK-NEXT:     writes @y[grouped(e, g of 2), block(n by 16)]
// CHECK-NEXT:   tile.tasks @return (e, s, c) in (3, 2, 1) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @y[grouped(e, (rank + s) mod 2 of 2), :]
// CHECK-NEXT:     writes @back on (rank + s) mod 2 [sent(rank * 3 + e), :]
// CHECK-NEXT:   tile.tasks @weighted_sum (b) in (2) on aiv
// CHECK-NEXT:     kernel "weighted_sum" using @route
// CHECK-NEXT:     reads @back[:, :], @position[tokens(b of 2), :], @gate[tokens(b of 2), :]
// CHECK-NEXT:     writes @out[tokens(b of 2), :]
// CHECK-NEXT:   queue.event @count_done () count 2 line 0
// CHECK-NEXT:   queue.event @exchange_done () count 2 copies 2 line 1
// CHECK-NEXT:   queue.event @place_done () count 2 line 3
// CHECK-NEXT:   queue.event @build_route_done () count 1 line 4
// CHECK-NEXT:   queue.event @dispatch_done (3, 2) count 1 line 5
// CHECK-NEXT:   queue.event @matmul_done (3, 2) count 2 line 11
// CHECK-NEXT:   queue.event @swiglu_done (3, 2) count 1 line 17
// CHECK-NEXT:   queue.event @matmul_1_done (3, 2) count 3 line 23
// CHECK-NEXT:   queue.event @return_done () count 6 line 29
// CHECK-NEXT:   queue.event @place_done_1 (2) count 1 line 30
// CHECK-NEXT:   queue.signal @count (b) to @count_done ()
// CHECK-NEXT:   queue.signal @exchange (p) to @exchange_done () on (rank + p) mod 2
// CHECK-NEXT:   queue.signal @place (b) to @place_done ()
// CHECK-NEXT:   queue.signal @build_route () to @build_route_done ()
// CHECK-NEXT:   queue.signal @dispatch (p, e, c) to @dispatch_done (e, rank) on (rank + p) mod 2 credited by @build_route
// CHECK-NEXT:   queue.signal @matmul (e, g, c, n) to @matmul_done (e, g)
// CHECK-NEXT:   queue.signal @swiglu (e, g, c) to @swiglu_done (e, g)
// CHECK-NEXT:   queue.signal @matmul_1 (e, g, c, n) to @matmul_1_done (e, g)
// CHECK-NEXT:   queue.signal @return (e, s, c) to @return_done () on (rank + s) mod 2 credited by @build_route
// CHECK-NEXT:   queue.signal @place (b) to @place_done_1 (b)
// CHECK-NEXT:   queue.wait @exchange (p) for @count_done ()
// CHECK-NEXT:   queue.wait @place (b) for @count_done ()
// CHECK-NEXT:   queue.wait @build_route () for @exchange_done ()
// CHECK-NEXT:   queue.wait @dispatch (p, e, c) for @place_done ()
// CHECK-NEXT:   queue.wait @dispatch (p, e, c) for @build_route_done ()
// CHECK-NEXT:   queue.wait @matmul (e, g, c, n) for @dispatch_done (e, g)
// CHECK-NEXT:   queue.wait @matmul (e, g, c, n) for @build_route_done ()
// CHECK-NEXT:   queue.wait @swiglu (e, g, c) for @matmul_done (e, g)
// CHECK-NEXT:   queue.wait @matmul_1 (e, g, c, n) for @swiglu_done (e, g)
// CHECK-NEXT:   queue.wait @return (e, s, c) for @matmul_1_done (e, (rank + s) mod 2)
// CHECK-NEXT:   queue.wait @weighted_sum (b) for @return_done ()
// CHECK-NEXT:   queue.wait @weighted_sum (b) for @place_done_1 (b)
// CHECK-NEXT:   queue.order aic {
// CHECK-NEXT:     [@matmul[0], @matmul_1[12]],
// CHECK-NEXT:     [@matmul[1], @matmul_1[13]],
// CHECK-NEXT:     [@matmul[2], @matmul_1[14]],
// CHECK-NEXT:     [@matmul[3], @matmul_1[15]],
// CHECK-NEXT:     [@matmul[4], @matmul_1[16]],
// CHECK-NEXT:     [@matmul[5], @matmul_1[17]],
// CHECK-NEXT:     [@matmul[6]],
// CHECK-NEXT:     [@matmul[7]],
// CHECK-NEXT:     [@matmul_1[0]],
// CHECK-NEXT:     [@matmul_1[1]],
// CHECK-NEXT:     [@matmul_1[2]],
// CHECK-NEXT:     [@matmul_1[3]],
// CHECK-NEXT:     [@matmul_1[4]],
// CHECK-NEXT:     [@matmul_1[5]],
// CHECK-NEXT:     [@matmul[8]],
// CHECK-NEXT:     [@matmul[9]],
// CHECK-NEXT:     [@matmul[10]],
// CHECK-NEXT:     [@matmul[11]],
// CHECK-NEXT:     [@matmul_1[6]],
// CHECK-NEXT:     [@matmul_1[7]],
// CHECK-NEXT:     [@matmul_1[8]],
// CHECK-NEXT:     [@matmul_1[9]],
// CHECK-NEXT:     [@matmul_1[10]],
// CHECK-NEXT:     [@matmul_1[11]]
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.order aiv {
// CHECK-NEXT:     [@count[0]],
// CHECK-NEXT:     [@count[1]],
// CHECK-NEXT:     [@exchange[0]],
// CHECK-NEXT:     [@exchange[1]],
// CHECK-NEXT:     [@place[0]],
// CHECK-NEXT:     [@place[1]],
// CHECK-NEXT:     [@build_route[0]],
// CHECK-NEXT:     [@dispatch[0]],
// CHECK-NEXT:     [@dispatch[3]],
// CHECK-NEXT:     [@dispatch[1]],
// CHECK-NEXT:     [@dispatch[4]],
// CHECK-NEXT:     [@swiglu[0]],
// CHECK-NEXT:     [@swiglu[1]],
// CHECK-NEXT:     [@dispatch[2]],
// CHECK-NEXT:     [@dispatch[5]],
// CHECK-NEXT:     [@swiglu[2]],
// CHECK-NEXT:     [@swiglu[3]],
// CHECK-NEXT:     [@return[0]],
// CHECK-NEXT:     [@return[1]],
// CHECK-NEXT:     [@swiglu[4]],
// CHECK-NEXT:     [@swiglu[5]],
// CHECK-NEXT:     [@return[2]],
// CHECK-NEXT:     [@return[3]],
// CHECK-NEXT:     [@return[4]],
// CHECK-NEXT:     [@return[5]],
// CHECK-NEXT:     [@weighted_sum[0]],
// CHECK-NEXT:     [@weighted_sum[1]],
// CHECK-NEXT:     [] times 21
// CHECK-NEXT:   }
// CHECK-NEXT: }
