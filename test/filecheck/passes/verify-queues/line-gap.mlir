// RUN: hpmoe-opt %s -p verify-queues | filecheck %s

// CHECK: queue.program @p
// Thresholds are looked up by line: lines that hold no counter have one, too.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @out output : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 1), :]
    writes @h[tokens(0 of 1), :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 1), :]
    writes @h[tokens(0 of 1), :]
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @h[tokens(0 of 1), :]
    writes @out[tokens(0 of 1), :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 9
  queue.signal @a (i) to @a_done ()
  queue.signal @b (i) to @b_done ()
  queue.wait @b (i) for @a_done ()
  queue.wait @r (i) for @b_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@a[0]],
    [@b[0]],
    [@r[0]],
    [] times 45
  }
}

// Compiled queues of a layer, in which the last event has moved from line 21 to line 22.
// CHECK: queue.program @moe_layer
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
  tile.buffer @recv window at 0 : !tile.buffer<grouped 48 rows, 32xbf16>
  tile.buffer @back window at 3072 : !tile.buffer<sent 24 rows, 32xbf16>
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
  queue.event @return_done () count 4 line 22
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
