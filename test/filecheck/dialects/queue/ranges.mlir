// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

// Waits for the parts of a tile and for the tiles of a part.
queue.program @ranges ranks 2 machine "ascend-a3" {
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
  queue.event @put (3, 2) count 1
  queue.event @made (5) count 1
  queue.signal @matmul (t) to @made (t)
  queue.wait @matmul (t) for @put (parts(t of 5 by 16))
  queue.wait @copy (e, s) for @made (tiles(e, s of 2, of 5 by 16))
}

// CHECK:      queue.signal @matmul (t) to @made (t)
// CHECK-NEXT: queue.wait @matmul (t) for @put (parts(t of 5 by 16))
// CHECK-NEXT: queue.wait @copy (e, s) for @made (tiles(e, s of 2, of 5 by 16))

// GENERIC: "queue.wait"() <{family = @matmul, dims = ["t"], event = @put, index = [], among = #tile.event_range<parts(d0 of 5 by 16)>}>
// GENERIC: "queue.wait"() <{family = @copy, dims = ["e", "s"], event = @made, index = [], among = #tile.event_range<tiles(d0, d1 of 2, of 5 by 16)>}>

// -----

// The same of single tasks.
queue.core aic 0 {
  queue.task @matmul (3)
    waits @put[parts(3 of 5 by 16)]
    signals @made[3]
}

// CHECK:      queue.task @matmul (3)
// CHECK-NEXT:   waits @put[parts(3 of 5 by 16)]
// CHECK-NEXT:   signals @made[3]
