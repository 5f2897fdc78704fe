// RUN: hpmoe-opt %s --split-input-file -p credit-empty-puts | filecheck %s

// Puts to experts and puts back: signalled on a peer, they are credited; what a put tells its own rank is not.
tile.program @layer ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @dispatch (p, e, c) in (2, 3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e, chunk c of 2 by 16), :]
    writes @recv on p [grouped(e, rank of 2, chunk c of 2 by 16), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @use (x) in (6) on aiv
    kernel "copy_rows" using @route
    reads @back[sent(x), :]
    writes @out[sent(x), :]
  tile.dependence @build_route () -> @dispatch (p, e, c) on @route
    events () from () to () count 1
  tile.dependence @dispatch (p, e, c) -> @return (e, s) on @recv
    events (3, 2) from (e, rank) on p to (e, s) count 2
  tile.dependence @return (e, s) -> @use (x) on @back
    events (6) from (rank * 3 + e) on s to (x) count 1
  tile.dependence @return (e, s) -> @use (x) on @recv
    events (3) from (e) to (x mod 3) count 2
}

// CHECK-LABEL: tile.program @layer ranks 2 {
// CHECK:        tile.dependence @build_route () -> @dispatch (p, e, c) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @dispatch (p, e, c) -> @return (e, s) on @recv
// CHECK-NEXT:     events (3, 2) from (e, rank) on p to (e, s) count 2
// CHECK-NEXT:     credited by @build_route
// CHECK-NEXT:   tile.dependence @return (e, s) -> @use (x) on @back
// CHECK-NEXT:     events (6) from (rank * 3 + e) on s to (x) count 1
// CHECK-NEXT:     credited by @build_route
// CHECK-NEXT:   tile.dependence @return (e, s) -> @use (x) on @recv
// CHECK-NEXT:     events (3) from (e) to (x mod 3) count 2
// CHECK-NEXT: }

// -----

// A put that always has rows; nobody that could count; one event for each peer's coordinate.
tile.program @others ranks 2 {
  tile.buffer @own workspace : !tile.buffer<2x6xi32>
  tile.buffer @counts window : !tile.buffer<2x12xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @own[:, :]
    writes @counts on p [rank, :]
  tile.tasks @dispatch (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @use (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, 0 of 1), :]
    writes @out[grouped(e, 0 of 1), :]
  tile.dependence @exchange (p) -> @use (e) on @counts
    events () from () on p to () count 2
  tile.dependence @dispatch (p, e) -> @use (e) on @recv
    events (3) from (e) on p to (e) count 2
}

// CHECK-LABEL: tile.program @others ranks 2 {
// CHECK:        tile.dependence @exchange (p) -> @use (e) on @counts
// CHECK-NEXT:     events () from () on p to () count 2
// CHECK-NEXT:   tile.dependence @dispatch (p, e) -> @use (e) on @recv
// CHECK-NEXT:     events (3) from (e) on p to (e) count 2
// CHECK-NEXT: }
