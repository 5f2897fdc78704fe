// RUN: hpmoe-opt %s --split-input-file -p expand-tasks | filecheck %s

// Coordinates are filled in; the rank stays a symbol. A wait says the threshold of its own event, where all ranks have the same. Cores without tasks are left out.
queue.program @layer ranks 2 machine "ascend-a3" {
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @w input : !tile.buffer<2x48x40xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 20 rows>
  tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<grouped 20 rows, 40xbf16>
  tile.tasks @put (p, e) in (2, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent((rank + p) mod 2 * 2 + e), :]
    writes @recv on (rank + p) mod 2 [grouped(e, rank of 2, chunk 0 of 2 by 8), :]
  tile.tasks @matmul (e, n) in (2, 3) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, 0 of 1), :], @w[e, :, block(n by 16)]
    writes @h[grouped(e, 0 of 1), block(n by 16)]
  queue.event @put_done (2) count [2, 3]
  queue.event @all_done () count 6
  queue.event @uneven (2) count [1, 2]
  queue.signal @put (p, e) to @put_done (e) on (rank + p) mod 2
  queue.signal @matmul (e, n) to @all_done ()
  queue.wait @matmul (e, n) for @put_done (e)
  queue.wait @put (p, e) for @uneven ((rank + p) mod 2)
  queue.order aic {
    [@matmul[0, 5]],
    [],
    [@matmul[1, 2, 3, 4]],
    [] times 21
  }
  queue.order aiv {
    [@put[0, 3]],
    [@put[1]],
    [@put[2]],
    [] times 45
  }
}

// CHECK:      queue.program @layer ranks 2 machine "ascend-a3" {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @w input : !tile.buffer<2x48x40xbf16>
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @h workspace at 0 : !tile.buffer<grouped 20 rows, 40xbf16>
// CHECK-NEXT:   queue.event @put_done (2) count [2, 3]
// CHECK-NEXT:   queue.event @all_done () count 6
// CHECK-NEXT:   queue.event @uneven (2) count [1, 2]
// CHECK-NEXT:   queue.core aic 0 {
// CHECK-NEXT:     queue.task @matmul (0, 0)
// CHECK-NEXT:       waits @put_done[0] count 2
// CHECK-NEXT:       reads @recv[grouped(0, 0 of 1), :], @w[0, :, block(0 by 16)]
// CHECK-NEXT:       writes @h[grouped(0, 0 of 1), block(0 by 16)]
// CHECK-NEXT:       signals @all_done[]
// CHECK-NEXT:     queue.task @matmul (1, 2)
// CHECK-NEXT:       waits @put_done[1] count 3
// CHECK-NEXT:       reads @recv[grouped(1, 0 of 1), :], @w[1, :, block(2 by 16)]
// CHECK-NEXT:       writes @h[grouped(1, 0 of 1), block(2 by 16)]
// CHECK-NEXT:       signals @all_done[]
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.core aic 2 {
// CHECK-NEXT:     queue.task @matmul (0, 1)
// CHECK-NEXT:       waits @put_done[0] count 2
// CHECK-NEXT:       reads @recv[grouped(0, 0 of 1), :], @w[0, :, block(1 by 16)]
// CHECK-NEXT:       writes @h[grouped(0, 0 of 1), block(1 by 16)]
// CHECK-NEXT:       signals @all_done[]
// CHECK-NEXT:     queue.task @matmul (0, 2)
// CHECK-NEXT:       waits @put_done[0] count 2
// CHECK-NEXT:       reads @recv[grouped(0, 0 of 1), :], @w[0, :, block(2 by 16)]
// CHECK-NEXT:       writes @h[grouped(0, 0 of 1), block(2 by 16)]
// CHECK-NEXT:       signals @all_done[]
// CHECK-NEXT:     queue.task @matmul (1, 0)
// CHECK-NEXT:       waits @put_done[1] count 3
// CHECK-NEXT:       reads @recv[grouped(1, 0 of 1), :], @w[1, :, block(0 by 16)]
// CHECK-NEXT:       writes @h[grouped(1, 0 of 1), block(0 by 16)]
// CHECK-NEXT:       signals @all_done[]
// CHECK-NEXT:     queue.task @matmul (1, 1)
// CHECK-NEXT:       waits @put_done[1] count 3
// CHECK-NEXT:       reads @recv[grouped(1, 0 of 1), :], @w[1, :, block(1 by 16)]
// CHECK-NEXT:       writes @h[grouped(1, 0 of 1), block(1 by 16)]
// CHECK-NEXT:       signals @all_done[]
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.core aiv 0 {
// CHECK-NEXT:     queue.task @put (0, 0)
// CHECK-NEXT:       waits @uneven[rank]
// CHECK-NEXT:       reads @x[sent(rank * 2), :]
// CHECK-NEXT:       writes @recv on rank [grouped(0, rank of 2, chunk 0 of 2 by 8), :]
// CHECK-NEXT:       signals @put_done[0] on rank
// CHECK-NEXT:     queue.task @put (1, 1)
// CHECK-NEXT:       waits @uneven[(rank + 1) mod 2]
// CHECK-NEXT:       reads @x[sent((rank + 1) mod 2 * 2 + 1), :]
// CHECK-NEXT:       writes @recv on (rank + 1) mod 2 [grouped(1, rank of 2, chunk 0 of 2 by 8), :]
// CHECK-NEXT:       signals @put_done[1] on (rank + 1) mod 2
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.core aiv 1 {
// CHECK-NEXT:     queue.task @put (0, 1)
// CHECK-NEXT:       waits @uneven[rank]
// CHECK-NEXT:       reads @x[sent(rank * 2 + 1), :]
// CHECK-NEXT:       writes @recv on rank [grouped(1, rank of 2, chunk 0 of 2 by 8), :]
// CHECK-NEXT:       signals @put_done[1] on rank
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.core aiv 2 {
// CHECK-NEXT:     queue.task @put (1, 0)
// CHECK-NEXT:       waits @uneven[(rank + 1) mod 2]
// CHECK-NEXT:       reads @x[sent((rank + 1) mod 2 * 2), :]
// CHECK-NEXT:       writes @recv on (rank + 1) mod 2 [grouped(0, rank of 2, chunk 0 of 2 by 8), :]
// CHECK-NEXT:       signals @put_done[0] on (rank + 1) mod 2
// CHECK-NEXT:   }
// CHECK-NEXT: }
