// RUN: hpmoe-opt %s --split-input-file -p elide-dependencies | filecheck %s

// What another wait implies in two steps goes: @swiglu comes after @matmul, which uses the route.
tile.program @two_steps ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @a input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @o workspace : !tile.buffer<grouped 20 rows, 24xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @matmul (e, g, n) in (3, 2, 3) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, g of 2), :]
    writes @h[grouped(e, g of 2), block(n by 16)]
  tile.tasks @swiglu (e, g) in (3, 2) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, g of 2), :]
    writes @o[grouped(e, g of 2), :]
  tile.dependence @build_route () -> @matmul (e, g, n) on @route
    events () from () to () count 1
  tile.dependence @matmul (e, g, n) -> @swiglu (e, g) on @h
    events (3, 2) from (e, g) to (e, g) count 3
  tile.dependence @build_route () -> @swiglu (e, g) on @route
    events () from () to () count 1
}

// CHECK-LABEL: tile.program @two_steps ranks 2 {
// CHECK:        tile.tasks @swiglu (e, g) in (3, 2) on aiv
// CHECK-NEXT:     kernel "swiglu" using @route
// CHECK-NEXT:     reads @h[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @o[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @build_route () -> @matmul (e, g, n) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @matmul (e, g, n) -> @swiglu (e, g) on @h
// CHECK-NEXT:     events (3, 2) from (e, g) to (e, g) count 3
// CHECK-NEXT: }

// -----

// What peers wait for says nothing of this rank: @matmul still waits for its own route, although each put has waited for one.
tile.program @of_peers ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @dispatch (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @matmul (e, g) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, g of 2), :]
    writes @h[grouped(e, g of 2), :]
  tile.dependence @build_route () -> @dispatch (p, e) on @route
    events () from () to () count 1
  tile.dependence @dispatch (p, e) -> @matmul (e, g) on @recv
    events (3, 2) from (e, rank) on p to (e, g) count 1
  tile.dependence @build_route () -> @matmul (e, g) on @route
    events () from () to () count 1
}

// CHECK-LABEL: tile.program @of_peers ranks 2 {
// CHECK:        tile.tasks @matmul (e, g) in (3, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.dependence @build_route () -> @dispatch (p, e) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @dispatch (p, e) -> @matmul (e, g) on @recv
// CHECK-NEXT:     events (3, 2) from (e, rank) on p to (e, g) count 1
// CHECK-NEXT:   tile.dependence @build_route () -> @matmul (e, g) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT: }

// -----

// Each rank waits for the puts of all, its own among them, and those have waited for its own route.
tile.program @own_among_peers ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @sum (b) in (2) on aiv
    kernel "copy_rows" using @route
    reads @back[:, :]
    writes @out[tokens(b of 2), :]
  tile.dependence @build_route () -> @return (e, s) on @route
    events () from () to () count 1
  tile.dependence @return (e, s) -> @sum (b) on @back
    events () from () on s to () count 6
  tile.dependence @build_route () -> @sum (b) on @route
    events () from () to () count 1
}

// CHECK-LABEL: tile.program @own_among_peers ranks 2 {
// CHECK:        tile.tasks @sum (b) in (2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @back[:, :]
// CHECK-NEXT:     writes @out[tokens(b of 2), :]
// CHECK-NEXT:   tile.dependence @build_route () -> @return (e, s) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @return (e, s) -> @sum (b) on @back
// CHECK-NEXT:     events () from () on s to () count 6
// CHECK-NEXT: }

// -----

// Of two ways to wait for one family the coarser implies the finer.
tile.program @coarser ranks 1 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @order workspace : !tile.buffer<5xi32>
  tile.buffer @position workspace : !tile.buffer<5x6xi32>
  tile.buffer @out workspace : !tile.buffer<5x6xi32>
  tile.buffer @rest workspace : !tile.buffer<5x6xi32>
  tile.tasks @place (r) in (5) on aiv
    kernel "place_tokens"
    reads @x[r, :], @x[:, :]
    writes scatter @order[:], @position[r, :]
    scalars (r)
  tile.tasks @use (r) in (5) on aiv
    kernel "place_tokens"
    reads @order[r], @position[r, :]
    writes @out[r, :], @rest[r, :]
    scalars (r)
  tile.dependence @place (r) -> @use (r) on @order
    events () from () to () count 5
  tile.dependence @place (r) -> @use (r) on @position
    events (5) from (r) to (r) count 1
}

// CHECK-LABEL: tile.program @coarser ranks 1 {
// CHECK:        tile.tasks @use (r) in (5) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @order[r], @position[r, :]
// CHECK-NEXT:     writes @out[r, :], @rest[r, :]
// CHECK-NEXT:     scalars (r)
// CHECK-NEXT:   tile.dependence @place (r) -> @use (r) on @order
// CHECK-NEXT:     events () from () to () count 5
// CHECK-NEXT: }

// -----

// What is implied for one task only stays: of @last only task 0 waits for the @mid that has waited for the same @first.
tile.program @for_some ranks 1 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x6xi32>
  tile.buffer @d workspace : !tile.buffer<5x6xi32>
  tile.tasks @first (r) in (5) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
  tile.tasks @mid (r) in (5) on aiv
    kernel "count_tokens"
    reads @a[r, :]
    writes @b[r, :]
  tile.tasks @last (r) in (5) on aiv
    kernel "place_tokens"
    reads @a[r, :], @b[0, :]
    writes @c[r, :], @d[r, :]
    scalars (r)
  tile.dependence @first (r) -> @mid (r) on @a
    events (5) from (r) to (r) count 1
  tile.dependence @first (r) -> @last (r) on @a
    events (5) from (r) to (r) count 1
  tile.dependence @mid (r) -> @last (r) on @b
    events (5) from (r) to (0) count 1
}

// CHECK-LABEL: tile.program @for_some ranks 1 {
// CHECK:        tile.tasks @last (r) in (5) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @a[r, :], @b[0, :]
// CHECK-NEXT:     writes @c[r, :], @d[r, :]
// CHECK-NEXT:     scalars (r)
// CHECK-NEXT:   tile.dependence @first (r) -> @mid (r) on @a
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT:   tile.dependence @first (r) -> @last (r) on @a
// CHECK-NEXT:     events (5) from (r) to (r) count 1
// CHECK-NEXT:   tile.dependence @mid (r) -> @last (r) on @b
// CHECK-NEXT:     events (5) from (r) to (0) count 1
// CHECK-NEXT: }

// -----

// Three steps are not looked for: @d comes after @a by @b and @c, its own wait stays.
tile.program @three_steps ranks 1 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @p workspace : !tile.buffer<5x6xi32>
  tile.buffer @q workspace : !tile.buffer<5x6xi32>
  tile.buffer @r workspace : !tile.buffer<5x6xi32>
  tile.buffer @s workspace : !tile.buffer<5x6xi32>
  tile.tasks @a () in () on aiv
    kernel "count_tokens"
    reads @x[0, :]
    writes @p[0, :]
  tile.tasks @b () in () on aiv
    kernel "count_tokens"
    reads @p[0, :]
    writes @q[0, :]
  tile.tasks @c () in () on aiv
    kernel "count_tokens"
    reads @q[0, :]
    writes @r[0, :]
  tile.tasks @d () in () on aiv
    kernel "place_tokens"
    reads @p[0, :], @r[0, :]
    writes @s[0, :], @s[1, :]
    scalars (rank)
  tile.dependence @a () -> @b () on @p
    events () from () to () count 1
  tile.dependence @b () -> @c () on @q
    events () from () to () count 1
  tile.dependence @a () -> @d () on @p
    events () from () to () count 1
  tile.dependence @c () -> @d () on @r
    events () from () to () count 1
}

// CHECK-LABEL: tile.program @three_steps ranks 1 {
// CHECK:        tile.tasks @d () in () on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @p[0, :], @r[0, :]
// CHECK-NEXT:     writes @s[0, :], @s[1, :]
// CHECK-NEXT:     scalars (rank)
// CHECK-NEXT:   tile.dependence @a () -> @b () on @p
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @b () -> @c () on @q
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @a () -> @d () on @p
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @c () -> @d () on @r
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT: }

// -----

// Puts that are credited: one without rows tells nobody that @order has been placed, which all of them wait for. That the own route is built is told by a put or by the credit.
tile.program @credited ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @order workspace : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @place () in () on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @order[:, :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "add_rows" using @route
    reads @x[grouped(e, s of 2), :], @order[:, :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @sum (b) in (2) on aiv
    kernel "add_rows" using @route
    reads @back[:, :], @order[tokens(b of 2), :]
    writes @out[tokens(b of 2), :]
  tile.dependence @build_route () -> @return (e, s) on @route
    events () from () to () count 1
  tile.dependence @place () -> @return (e, s) on @order
    events () from () to () count 1
  tile.dependence @return (e, s) -> @sum (b) on @back
    events () from () on s to () count 6
    credited by @build_route
  tile.dependence @build_route () -> @sum (b) on @route
    events () from () to () count 1
  tile.dependence @place () -> @sum (b) on @order
    events () from () to () count 1
}

// CHECK-LABEL: tile.program @credited ranks 2 {
// CHECK:        tile.tasks @sum (b) in (2) on aiv
// CHECK:        tile.dependence @build_route () -> @return (e, s) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @place () -> @return (e, s) on @order
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @return (e, s) -> @sum (b) on @back
// CHECK-NEXT:     events () from () on s to () count 6
// CHECK-NEXT:     credited by @build_route
// CHECK-NEXT:   tile.dependence @place () -> @sum (b) on @order
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT: }

// -----

// The same puts credited by two tasks: each of them is known to have ended by its own credit alone, so both dependences stay. They stand for the waits for the two tasks.
tile.program @two_credits ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @status2 output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @y input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @first () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @second () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status2[:]
    scalars (rank, 20)
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @sum (b) in (2) on aiv
    kernel "add_rows" using @route
    reads @back[:, :], @y[tokens(b of 2), :]
    writes @out[tokens(b of 2), :]
  tile.dependence @first () -> @return (e, s) on @route
    events () from () to () count 1
  tile.dependence @second () -> @return (e, s) on @route
    events () from () to () count 1
  tile.dependence @return (e, s) -> @sum (b) on @back
    events () from () on s to () count 6
    credited by @first
  tile.dependence @return (e, s) -> @sum (b) on @back
    events () from () on s to () count 6
    credited by @second
  tile.dependence @first () -> @sum (b) on @route
    events () from () to () count 1
  tile.dependence @second () -> @sum (b) on @route
    events () from () to () count 1
}

// CHECK-LABEL: tile.program @two_credits ranks 2 {
// CHECK:        tile.tasks @sum (b) in (2) on aiv
// CHECK:        tile.dependence @first () -> @return (e, s) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @second () -> @return (e, s) on @route
// CHECK-NEXT:     events () from () to () count 1
// CHECK-NEXT:   tile.dependence @return (e, s) -> @sum (b) on @back
// CHECK-NEXT:     events () from () on s to () count 6
// CHECK-NEXT:     credited by @first
// CHECK-NEXT:   tile.dependence @return (e, s) -> @sum (b) on @back
// CHECK-NEXT:     events () from () on s to () count 6
// CHECK-NEXT:     credited by @second
// CHECK-NEXT: }
