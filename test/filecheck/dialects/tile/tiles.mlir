// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

// Tiles of rows that the route numbers, the expert of a tile, and waits for ranges of events.
tile.program @tiles ranks 2 {
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @matmul (t, n) in (5, 3) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, block(n by 16)]
    writes @y[tile(t of 5 by 16), block(n by 16)]
  tile.tasks @return (e, s, n) in (3, 2, 3) on aiv
    kernel "copy_rows" using @route
    reads @y[grouped(e, s of 2), block(n by 16)]
    writes @back on s [sent(rank * 3 + e), block(n by 16)]
  tile.dependence @matmul (t, n) -> @return (e, s, n) on @y
    events (5, 3) from (t, n) to (tiles(e, s of 2, of 5 by 16), n) count 1
  tile.dependence @return (e, s, n) -> @matmul (t, n) on @back
    events (3, 2) from (e, rank) on s to (parts(t of 5 by 16)) count 3
}

// CHECK:      tile.tasks @matmul (t, n) in (5, 3) on aic
// CHECK-NEXT:   kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:   reads @recv[tile(t of 5 by 16), :], @w[expert(t of 5 by 16), :, block(n by 16)]
// CHECK-NEXT:   writes @y[tile(t of 5 by 16), block(n by 16)]
// CHECK:      tile.dependence @matmul (t, n) -> @return (e, s, n) on @y
// CHECK-NEXT:   events (5, 3) from (t, n) to (tiles(e, s of 2, of 5 by 16), n) count 1
// CHECK-NEXT: tile.dependence @return (e, s, n) -> @matmul (t, n) on @back
// CHECK-NEXT:   events (3, 2) from (e, rank) on s to (parts(t of 5 by 16)) count 3

// GENERIC: reads = [#tile.access<@recv[tile(d0 of 5 by 16), :]>, #tile.access<@w[expert(d0 of 5 by 16), :, block(d1 by 16)]>]
// GENERIC: target = [#tile.index<d2>], {{.*}}among = #tile.event_range<tiles(d0, d1 of 2, of 5 by 16)>
// GENERIC: target = [], {{.*}}among = #tile.event_range<parts(d0 of 5 by 16)>
