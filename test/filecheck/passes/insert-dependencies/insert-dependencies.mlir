// RUN: hpmoe-opt %s --split-input-file -p insert-dependencies | filecheck %s
// RUN: hpmoe-opt %s --split-input-file -p 'insert-dependencies{granularity=expert}' | filecheck %s --check-prefix=EXPERT

// Parts of the same cut: an event for each expert and group, counting the blocks of columns; by expert one for both groups.
tile.program @parts ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 60xbf16>
  tile.buffer @out workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @matmul (e, g, n) in (3, 2, 4) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, g of 2), :]
    writes @h[grouped(e, g of 2), block(n by 16)]
  tile.tasks @swiglu (e, g) in (3, 2) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @out[grouped(e, g of 2), :]
}

// CHECK-LABEL: tile.program @parts ranks 2 {
// CHECK:        tile.tasks @swiglu (e, g) in (3, 2) on aiv
// CHECK-NEXT:     kernel "swiglu" using @route
// CHECK-NEXT:     reads @h[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @out[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @matmul (e, g, n) -> @swiglu (e, g) on @h
// CHECK-NEXT:     events (3, 2) from (e, g) to (e, g) count 4
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @parts ranks 2 {
// EXPERT:        tile.tasks @swiglu (e, g) in (3, 2) on aiv
// EXPERT-NEXT:     kernel "swiglu" using @route
// EXPERT-NEXT:     reads @h[grouped(e, g of 2), :]
// EXPERT-NEXT:     writes @out[grouped(e, g of 2), :]
// EXPERT-NEXT:   tile.dependence @matmul (e, g, n) -> @swiglu (e, g) on @h
// EXPERT-NEXT:     events (3) from (e) to (e) count 8
// EXPERT-NEXT: }

// -----

// Puts of all ranks: each rank has an event for each expert and source, signalled on the peer.
tile.program @puts ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @x workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @dispatch (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @matmul (e, g) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, g of 2), :]
    writes @h[grouped(e, g of 2), :]
}

// CHECK-LABEL: tile.program @puts ranks 2 {
// CHECK:        tile.tasks @matmul (e, g) in (3, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e, g) on @recv
// CHECK-NEXT:     events (3, 2) from (e, rank) on p to (e, g) count 1
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @puts ranks 2 {
// EXPERT:        tile.tasks @matmul (e, g) in (3, 2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @recv[grouped(e, g of 2), :]
// EXPERT-NEXT:     writes @h[grouped(e, g of 2), :]
// EXPERT-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e, g) on @recv
// EXPERT-NEXT:     events (3) from (e) on p to (e) count 2
// EXPERT-NEXT: }

// -----

// Destinations counted from the rank itself: the event is in the memory of the peer all the same.
tile.program @rotated ranks 3 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 3 ranks, 20 rows>
  tile.buffer @x workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @dispatch (p, e) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent((rank + p) mod 3 * 2 + e), :]
    writes @recv on (rank + p) mod 3 [grouped(e, rank of 3), :]
  tile.tasks @matmul (e) in (2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
}

// CHECK-LABEL: tile.program @rotated ranks 3 {
// CHECK:        tile.tasks @matmul (e) in (2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @recv[grouped(e, 0 of 1), :]
// CHECK-NEXT:     writes @h[grouped(e, 0 of 1), :]
// CHECK-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e) on @recv
// CHECK-NEXT:     events (2) from (e) on (rank + p) mod 3 to (e) count 3
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @rotated ranks 3 {
// EXPERT:        tile.tasks @matmul (e) in (2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @recv[grouped(e, 0 of 1), :]
// EXPERT-NEXT:     writes @h[grouped(e, 0 of 1), :]
// EXPERT-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e) on @recv
// EXPERT-NEXT:     events (2) from (e) on (rank + p) mod 3 to (e) count 3
// EXPERT-NEXT: }

// -----

// Groups of equal size: a part waits for the puts of its two sources, each in two chunks.
tile.program @groups ranks 4 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 8 experts over 4 ranks, 20 rows>
  tile.buffer @x workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @dispatch (p, e, c) in (4, 2, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 2 + e, chunk c of 2 by 16), :]
    writes @recv on p [grouped(e, rank of 4, chunk c of 2 by 16), :]
  tile.tasks @matmul (e, g) in (2, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, g of 2), :]
    writes @h[grouped(e, g of 2), :]
}

// CHECK-LABEL: tile.program @groups ranks 4 {
// CHECK:        tile.tasks @matmul (e, g) in (2, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @dispatch (p, e, c) -> @matmul (e, g) on @recv
// CHECK-NEXT:     events (2, 2) from (e, rank floordiv 2) on p to (e, g) count 4
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @groups ranks 4 {
// EXPERT:        tile.tasks @matmul (e, g) in (2, 2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @recv[grouped(e, g of 2), :]
// EXPERT-NEXT:     writes @h[grouped(e, g of 2), :]
// EXPERT-NEXT:   tile.dependence @dispatch (p, e, c) -> @matmul (e, g) on @recv
// EXPERT-NEXT:     events (2) from (e) on p to (e) count 8
// EXPERT-NEXT: }

// -----

// Groups of unequal size have unequal thresholds: sources 0, 1 and 2, 3, 4.
tile.program @unequal ranks 5 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 10 experts over 5 ranks, 20 rows>
  tile.buffer @x workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @dispatch (p, e) in (5, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 2 + e), :]
    writes @recv on p [grouped(e, rank of 5), :]
  tile.tasks @matmul (e, g) in (2, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, g of 2), :]
    writes @h[grouped(e, g of 2), :]
}

// CHECK-LABEL: tile.program @unequal ranks 5 {
// CHECK:        tile.tasks @matmul (e, g) in (2, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e, g) on @recv
// CHECK-NEXT:     events (2, 2) from (e, (rank * 2 + 1) floordiv 5) on p to (e, g) count [2, 3, 2, 3]
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @unequal ranks 5 {
// EXPERT:        tile.tasks @matmul (e, g) in (2, 2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @recv[grouped(e, g of 2), :]
// EXPERT-NEXT:     writes @h[grouped(e, g of 2), :]
// EXPERT-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e, g) on @recv
// EXPERT-NEXT:     events (2) from (e) on p to (e) count 5
// EXPERT-NEXT: }

// -----

// Chunks of the same cut are parts of their own.
tile.program @chunks ranks 1 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 3 experts over 1 ranks, 14 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 14 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<grouped 14 rows, 48xbf16>
  tile.buffer @c workspace : !tile.buffer<grouped 14 rows, 48xbf16>
  tile.tasks @p (e, c) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, 0 of 1, chunk c of 2 by 4), :]
    writes @b[grouped(e, 0 of 1, chunk c of 2 by 4), :]
  tile.tasks @q (e, c) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @b[grouped(e, 0 of 1, chunk c of 2 by 4), :]
    writes @c[grouped(e, 0 of 1, chunk c of 2 by 4), :]
}

// CHECK-LABEL: tile.program @chunks ranks 1 {
// CHECK:        tile.tasks @q (e, c) in (3, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @b[grouped(e, 0 of 1, chunk c of 2 by 4), :]
// CHECK-NEXT:     writes @c[grouped(e, 0 of 1, chunk c of 2 by 4), :]
// CHECK-NEXT:   tile.dependence @p (e, c) -> @q (e, c) on @b
// CHECK-NEXT:     events (3, 2) from (e, c) to (e, c) count 1
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @chunks ranks 1 {
// EXPERT:        tile.tasks @q (e, c) in (3, 2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @b[grouped(e, 0 of 1, chunk c of 2 by 4), :]
// EXPERT-NEXT:     writes @c[grouped(e, 0 of 1, chunk c of 2 by 4), :]
// EXPERT-NEXT:   tile.dependence @p (e, c) -> @q (e, c) on @b
// EXPERT-NEXT:     events (3) from (e) to (e) count 2
// EXPERT-NEXT: }

// -----

// Chunks of another cut are not compared: which rows they share is known at run time only, so the event is the expert's.
tile.program @other_cut ranks 1 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 3 experts over 1 ranks, 14 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 14 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<grouped 14 rows, 48xbf16>
  tile.buffer @c workspace : !tile.buffer<grouped 14 rows, 48xbf16>
  tile.tasks @p (e, c) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, 0 of 1, chunk c of 2 by 4), :]
    writes @b[grouped(e, 0 of 1, chunk c of 2 by 4), :]
  tile.tasks @q (e, c) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @b[grouped(e, 0 of 1, chunk c of 2 by 8), :]
    writes @c[grouped(e, 0 of 1, chunk c of 2 by 8), :]
}

// CHECK-LABEL: tile.program @other_cut ranks 1 {
// CHECK:        tile.tasks @q (e, c) in (3, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @b[grouped(e, 0 of 1, chunk c of 2 by 8), :]
// CHECK-NEXT:     writes @c[grouped(e, 0 of 1, chunk c of 2 by 8), :]
// CHECK-NEXT:   tile.dependence @p (e, c) -> @q (e, c) on @b
// CHECK-NEXT:     events (3) from (e) to (e) count 2
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @other_cut ranks 1 {
// EXPERT:        tile.tasks @q (e, c) in (3, 2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @b[grouped(e, 0 of 1, chunk c of 2 by 8), :]
// EXPERT-NEXT:     writes @c[grouped(e, 0 of 1, chunk c of 2 by 8), :]
// EXPERT-NEXT:   tile.dependence @p (e, c) -> @q (e, c) on @b
// EXPERT-NEXT:     events (3) from (e) to (e) count 2
// EXPERT-NEXT: }

// -----

// Groups that straddle each other are one class: 3 groups and 2 groups of 6 ranks.
tile.program @straddle ranks 6 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 12 experts over 6 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @c workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @p (e, g) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, g of 3), :]
    writes @b[grouped(e, g of 3), :]
  tile.tasks @q (e, g) in (2, 2) on aiv
    kernel "copy_rows" using @route
    reads @b[grouped(e, g of 2), :]
    writes @c[grouped(e, g of 2), :]
}

// CHECK-LABEL: tile.program @straddle ranks 6 {
// CHECK:        tile.tasks @q (e, g) in (2, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @b[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @c[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @p (e, g) -> @q (e, g) on @b
// CHECK-NEXT:     events (2) from (e) to (e) count 3
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @straddle ranks 6 {
// EXPERT:        tile.tasks @q (e, g) in (2, 2) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @b[grouped(e, g of 2), :]
// EXPERT-NEXT:     writes @c[grouped(e, g of 2), :]
// EXPERT-NEXT:   tile.dependence @p (e, g) -> @q (e, g) on @b
// EXPERT-NEXT:     events (2) from (e) to (e) count 3
// EXPERT-NEXT: }

// -----

// Finer and coarser blocks of columns: two blocks of 16 are one of 32.
tile.program @columns ranks 1 {
  tile.buffer @a workspace : !tile.buffer<5x72xbf16>
  tile.buffer @b workspace : !tile.buffer<5x72xbf16>
  tile.tasks @p (n) in (5) on aiv
    kernel "copy_rows"
    reads @a[:, block(n by 16)]
    writes @b[:, block(n by 16)]
  tile.tasks @q (m) in (3) on aiv
    kernel "copy_rows"
    reads @b[:, block(m by 32)]
    writes @a[:, block(m by 32)]
}

// CHECK-LABEL: tile.program @columns ranks 1 {
// CHECK:        tile.tasks @q (m) in (3) on aiv
// CHECK-NEXT:     kernel "copy_rows"
// CHECK-NEXT:     reads @b[:, block(m by 32)]
// CHECK-NEXT:     writes @a[:, block(m by 32)]
// CHECK-NEXT:   tile.dependence @p (n) -> @q (m) on @b, @a
// CHECK-NEXT:     events (3) from (n floordiv 2) to (m) count [2, 2, 1]
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @columns ranks 1 {
// EXPERT:        tile.tasks @q (m) in (3) on aiv
// EXPERT-NEXT:     kernel "copy_rows"
// EXPERT-NEXT:     reads @b[:, block(m by 32)]
// EXPERT-NEXT:     writes @a[:, block(m by 32)]
// EXPERT-NEXT:   tile.dependence @p (n) -> @q (m) on @b, @a
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT: }

// -----

// Who uses a route waits for the task that builds it; what is read as a whole has one event.
tile.program @route ranks 2 {
  tile.buffer @counts workspace : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @a input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @count (b) in (2) on aiv
    kernel "count_tokens"
    reads @a[:, :]
    writes @counts[b, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @copy (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, 0 of 1), :]
    writes @b[grouped(e, 0 of 1), :]
}

// CHECK-LABEL: tile.program @route ranks 2 {
// CHECK:        tile.tasks @copy (e) in (3) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @a[grouped(e, 0 of 1), :]
// CHECK-NEXT:     writes @b[grouped(e, 0 of 1), :]
// CHECK-NEXT:   tile.dependence @count (b) -> @build_route () on @counts
// CHECK-NEXT:     events () from () to () count 2
// CHECK-NEXT:   tile.dependence @build_route () -> @copy (e) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @route ranks 2 {
// EXPERT:        tile.tasks @copy (e) in (3) on aiv
// EXPERT-NEXT:     kernel "copy_rows" using @route
// EXPERT-NEXT:     reads @a[grouped(e, 0 of 1), :]
// EXPERT-NEXT:     writes @b[grouped(e, 0 of 1), :]
// EXPERT-NEXT:   tile.dependence @count (b) -> @build_route () on @counts
// EXPERT-NEXT:     events () from () to () count 2
// EXPERT-NEXT:   tile.dependence @build_route () -> @copy (e) on @route
// EXPERT-NEXT:     events () from () to () count 1
// EXPERT-NEXT: }

// -----

// Reading what nobody writes, and reading the same: no dependence.
tile.program @inputs ranks 2 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (r) in (5) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
  tile.tasks @q (r) in (5) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @b[r, :]
}

// CHECK-LABEL: tile.program @inputs ranks 2 {
// CHECK:        tile.tasks @q (r) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @x[r, :]
// CHECK-NEXT:     writes @b[r, :]
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @inputs ranks 2 {
// EXPERT:        tile.tasks @q (r) in (5) on aiv
// EXPERT-NEXT:     kernel "count_tokens"
// EXPERT-NEXT:     reads @x[r, :]
// EXPERT-NEXT:     writes @b[r, :]
// EXPERT-NEXT: }

// -----

// Writing after reading, and after writing: an earlier task comes first here as well.
tile.program @overwrite ranks 1 {
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (r) in (5) on aiv
    kernel "count_tokens"
    reads @a[r, :]
    writes @b[r, :]
  tile.tasks @q (r) in (5) on aiv
    kernel "count_tokens"
    reads @a[:, :]
    writes @b[r, :]
  tile.tasks @w (r) in (5) on aiv
    kernel "exchange_counts"
    reads @b[0, :]
    writes @a[r, :]
}

// CHECK-LABEL: tile.program @overwrite ranks 1 {
// CHECK:        tile.tasks @w (r) in (5) on aiv
// CHECK-NEXT:     kernel "exchange_counts"
// CHECK-NEXT:     reads @b[0, :]
// CHECK-NEXT:     writes @a[r, :]
// CHECK-NEXT:   tile.dependence @p (r) -> @q (r) on @b
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT:   tile.dependence @p (r) -> @w (r) on @b
// CHECK-NEXT:     events (5) from (r) to (0) count 1
// CHECK-NEXT:   tile.dependence @q (r) -> @w (r) on @b
// CHECK-NEXT:     events (5) from (r) to (0) count 1
// CHECK-NEXT:   tile.dependence @p (r) -> @w (r) on @a
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT:   tile.dependence @q (r) -> @w (r) on @a
// CHECK-NEXT:     events () from () to () count 5
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @overwrite ranks 1 {
// EXPERT:        tile.tasks @w (r) in (5) on aiv
// EXPERT-NEXT:     kernel "exchange_counts"
// EXPERT-NEXT:     reads @b[0, :]
// EXPERT-NEXT:     writes @a[r, :]
// EXPERT-NEXT:   tile.dependence @p (r) -> @q (r) on @b
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT:   tile.dependence @p (r) -> @w (r) on @b, @a
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT:   tile.dependence @q (r) -> @w (r) on @b, @a
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT: }

// -----

// Several buffers with the same events are one dependence; with others they are several.
tile.program @buffers ranks 1 {
  tile.buffer @x inout : !tile.buffer<5x6xi32>
  tile.buffer @rest workspace : !tile.buffer<5x6xi32>
  tile.buffer @last workspace : !tile.buffer<5x6xi32>
  tile.buffer @order workspace : !tile.buffer<5xi32>
  tile.buffer @position workspace : !tile.buffer<5x6xi32>
  tile.buffer @out workspace : !tile.buffer<5x6xi32>
  tile.tasks @place (r) in (5) on aiv
    kernel "place_tokens"
    reads @x[r, :], @x[:, :]
    writes @order[r], @position[r, :]
    scalars (r)
  tile.tasks @same (r) in (5) on aiv
    kernel "place_tokens"
    reads @order[r], @position[r, :]
    writes @out[r, :], @rest[r, :]
    scalars (r)
  tile.tasks @other (r) in (5) on aiv
    kernel "place_tokens"
    reads @order[:], @position[r, :]
    writes @x[r, :], @last[r, :]
    scalars (r)
}

// CHECK-LABEL: tile.program @buffers ranks 1 {
// CHECK:        tile.tasks @other (r) in (5) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @order[:], @position[r, :]
// CHECK-NEXT:     writes @x[r, :], @last[r, :]
// CHECK-NEXT:     scalars (r)
// CHECK-NEXT:   tile.dependence @place (r) -> @same (r) on @order, @position
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT:   tile.dependence @place (r) -> @other (r) on @order, @x
// CHECK-NEXT:     events () from () to () count 5
// CHECK-NEXT:   tile.dependence @place (r) -> @other (r) on @position, @x
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @buffers ranks 1 {
// EXPERT:        tile.tasks @other (r) in (5) on aiv
// EXPERT-NEXT:     kernel "place_tokens"
// EXPERT-NEXT:     reads @order[:], @position[r, :]
// EXPERT-NEXT:     writes @x[r, :], @last[r, :]
// EXPERT-NEXT:     scalars (r)
// EXPERT-NEXT:   tile.dependence @place (r) -> @same (r) on @order, @position
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT:   tile.dependence @place (r) -> @other (r) on @order, @position, @x
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT: }

// -----

// Scattered writes may be anywhere in the region: who reads a part waits for all.
tile.program @scatter ranks 1 {
  tile.buffer @x inout : !tile.buffer<5x6xi32>
  tile.buffer @order workspace : !tile.buffer<5xi32>
  tile.buffer @position workspace : !tile.buffer<5x6xi32>
  tile.tasks @place (r) in (5) on aiv
    kernel "place_tokens"
    reads @x[r, :], @x[:, :]
    writes scatter @order[:], @position[r, :]
    scalars (r)
  tile.tasks @use (r) in (5) on aiv
    kernel "count_tokens"
    reads @order[r]
    writes @x[r, :]
}

// CHECK-LABEL: tile.program @scatter ranks 1 {
// CHECK:        tile.tasks @use (r) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @order[r]
// CHECK-NEXT:     writes @x[r, :]
// CHECK-NEXT:   tile.dependence @place (r) -> @use (r) on @order, @x
// CHECK-NEXT:     events () from () to () count 5
// CHECK-NEXT:   tile.dependence @place (r) -> @use (r) on @x
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @scatter ranks 1 {
// EXPERT:        tile.tasks @use (r) in (5) on aiv
// EXPERT-NEXT:     kernel "count_tokens"
// EXPERT-NEXT:     reads @order[r]
// EXPERT-NEXT:     writes @x[r, :]
// EXPERT-NEXT:   tile.dependence @place (r) -> @use (r) on @order, @x
// EXPERT-NEXT:     events () from () to () count 5
// EXPERT-NEXT: }

// -----

// Parts of the tokens: the same number is compared, another number is not.
tile.program @tokens ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @a workspace : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.tasks @p (b) in (3) on aiv
    kernel "copy_rows"
    reads @x[tokens(b of 3), :]
    writes @a[tokens(b of 3), :]
  tile.tasks @q (b) in (3) on aiv
    kernel "copy_rows"
    reads @a[tokens(b of 3), :]
    writes @b[tokens(b of 3), :]
  tile.tasks @r (b) in (2) on aiv
    kernel "copy_rows"
    reads @b[tokens(b of 2), :]
    writes @out[tokens(b of 2), :]
}

// CHECK-LABEL: tile.program @tokens ranks 2 {
// CHECK:        tile.tasks @r (b) in (2) on aiv
// CHECK-NEXT:     kernel "copy_rows"
// CHECK-NEXT:     reads @b[tokens(b of 2), :]
// CHECK-NEXT:     writes @out[tokens(b of 2), :]
// CHECK-NEXT:   tile.dependence @p (b) -> @q (b) on @a
// CHECK-NEXT:     events (3) from (b) to (b) count 1
// CHECK-NEXT:   tile.dependence @q (b) -> @r (b) on @b
// CHECK-NEXT:     events () from () to () count 3
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @tokens ranks 2 {
// EXPERT:        tile.tasks @r (b) in (2) on aiv
// EXPERT-NEXT:     kernel "copy_rows"
// EXPERT-NEXT:     reads @b[tokens(b of 2), :]
// EXPERT-NEXT:     writes @out[tokens(b of 2), :]
// EXPERT-NEXT:   tile.dependence @p (b) -> @q (b) on @a
// EXPERT-NEXT:     events () from () to () count 3
// EXPERT-NEXT:   tile.dependence @q (b) -> @r (b) on @b
// EXPERT-NEXT:     events () from () to () count 3
// EXPERT-NEXT: }

// -----

// Coordinates of the producer that are tied to each other: not each combination occurs, so one event.
tile.program @tied ranks 1 {
  tile.buffer @a workspace : !tile.buffer<4x4x48xbf16>
  tile.buffer @b workspace : !tile.buffer<4x4x48xbf16>
  tile.tasks @p (d) in (4) on aiv
    kernel "copy_rows"
    reads @a[d, d, :]
    writes @b[d, d, :]
  tile.tasks @q (d) in (4) on aiv
    kernel "copy_rows"
    reads @b[d, d, :]
    writes @a[d, d, :]
}

// CHECK-LABEL: tile.program @tied ranks 1 {
// CHECK:        tile.tasks @q (d) in (4) on aiv
// CHECK-NEXT:     kernel "copy_rows"
// CHECK-NEXT:     reads @b[d, d, :]
// CHECK-NEXT:     writes @a[d, d, :]
// CHECK-NEXT:   tile.dependence @p (d) -> @q (d) on @b, @a
// CHECK-NEXT:     events () from () to () count 4
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @tied ranks 1 {
// EXPERT:        tile.tasks @q (d) in (4) on aiv
// EXPERT-NEXT:     kernel "copy_rows"
// EXPERT-NEXT:     reads @b[d, d, :]
// EXPERT-NEXT:     writes @a[d, d, :]
// EXPERT-NEXT:   tile.dependence @p (d) -> @q (d) on @b, @a
// EXPERT-NEXT:     events () from () to () count 4
// EXPERT-NEXT: }

// -----

// Classes of an index that is no plain coordinate: what is written at 0, 4, 8 and read at 0, 8.
tile.program @strided ranks 1 {
  tile.buffer @a workspace : !tile.buffer<9x48xbf16>
  tile.buffer @b workspace : !tile.buffer<9x48xbf16>
  tile.tasks @p (i) in (3) on aiv
    kernel "copy_rows"
    reads @a[i, :]
    writes @b[i * 4, :]
  tile.tasks @q (i) in (2) on aiv
    kernel "copy_rows"
    reads @b[i * 8, :]
    writes @a[i, :]
}

// CHECK-LABEL: tile.program @strided ranks 1 {
// CHECK:        tile.tasks @q (i) in (2) on aiv
// CHECK-NEXT:     kernel "copy_rows"
// CHECK-NEXT:     reads @b[i * 8, :]
// CHECK-NEXT:     writes @a[i, :]
// CHECK-NEXT:   tile.dependence @p (i) -> @q (i) on @b
// CHECK-NEXT:     events (3) from (i * 4 floordiv 3) to (i * 8 floordiv 3) count 1
// CHECK-NEXT:   tile.dependence @p (i) -> @q (i) on @a
// CHECK-NEXT:     events (3) from (i) to (i) count 1
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @strided ranks 1 {
// EXPERT:        tile.tasks @q (i) in (2) on aiv
// EXPERT-NEXT:     kernel "copy_rows"
// EXPERT-NEXT:     reads @b[i * 8, :]
// EXPERT-NEXT:     writes @a[i, :]
// EXPERT-NEXT:   tile.dependence @p (i) -> @q (i) on @b, @a
// EXPERT-NEXT:     events () from () to () count 3
// EXPERT-NEXT: }

// -----

// Two families that write different parts do not wait for each other; who reads all waits for both.
tile.program @disjoint ranks 1 {
  tile.buffer @a input : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (i) in (3) on aiv
    kernel "count_tokens"
    reads @a[i, :]
    writes @b[i, :]
  tile.tasks @q (i) in (2) on aiv
    kernel "count_tokens"
    reads @a[i, :]
    writes @b[i + 3, :]
  tile.tasks @r (i) in (5) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @c[i, :]
}

// CHECK-LABEL: tile.program @disjoint ranks 1 {
// CHECK:        tile.tasks @r (i) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @b[i, :]
// CHECK-NEXT:     writes @c[i, :]
// CHECK-NEXT:   tile.dependence @p (i) -> @r (i) on @b
// CHECK-NEXT:     events () from () to () count 3
// CHECK-NEXT:   tile.dependence @q (i) -> @r (i) on @b
// CHECK-NEXT:     events () from () to () count 2
// CHECK-NEXT: }

// EXPERT-LABEL: tile.program @disjoint ranks 1 {
// EXPERT:        tile.tasks @r (i) in (5) on aiv
// EXPERT-NEXT:     kernel "count_tokens"
// EXPERT-NEXT:     reads @b[i, :]
// EXPERT-NEXT:     writes @c[i, :]
// EXPERT-NEXT:   tile.dependence @p (i) -> @q (i) on @b
// EXPERT-NEXT:     events () from () to () count 3
// EXPERT-NEXT:   tile.dependence @p (i) -> @r (i) on @b
// EXPERT-NEXT:     events () from () to () count 3
// EXPERT-NEXT:   tile.dependence @q (i) -> @r (i) on @b
// EXPERT-NEXT:     events () from () to () count 2
// EXPERT-NEXT: }
