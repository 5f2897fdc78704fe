// RUN: hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s

// Order by an event.
// CHECK: queue.program @p
// CHECK: queue.order aiv
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.event @first_done (2) count 1
  queue.signal @first (i) to @first_done (i)
  queue.wait @second (i) for @first_done (i)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0], @second[1]],
    [@first[1], @second[0]],
    [] times 46
  }
}

// -----

// Order by a queue alone: no event is needed where one core runs both.
// CHECK: queue.program @p
// CHECK: queue.order aiv
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0], @second[0]],
    [@first[1], @second[1]],
    [] times 46
  }
}

// -----

// Each rank waits before it is told by its peer; every use is over on both ranks when one ends.
// CHECK: queue.program @p
// CHECK: queue.order aiv
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @w window : !tile.buffer<2x8xi32>
  tile.buffer @sums workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<8xi32>
  tile.tasks @put (p) in (2) on aiv
    kernel "count_tokens"
    reads @in[p, :]
    writes @w on p [rank, :]
  tile.tasks @use (s) in (2) on aiv
    kernel "count_tokens"
    reads @w[s, :]
    writes @sums[s, :]
  tile.tasks @end () in () on aiv
    kernel "count_tokens"
    reads @sums[:, :]
    writes @out[:]
  queue.event @put_done (2) count 1
  queue.event @used () count 4
  queue.signal @put (p) to @put_done (rank) on p
  queue.signal @use (s) to @used () on 0
  queue.signal @use (s) to @used () on 1
  queue.wait @use (s) for @put_done (s)
  queue.wait @end () for @used ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@put[0], @use[1], @end[0]],
    [@put[1], @use[0]],
    [] times 46
  }
}

// -----

// A window with two copies needs less: the peers' uses of the launch before the last are over.
// CHECK: queue.program @p
// CHECK: queue.order aiv
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @w window copies 2 : !tile.buffer<2x8xi32>
  tile.buffer @sums workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<8xi32>
  tile.tasks @put (p) in (2) on aiv
    kernel "count_tokens"
    reads @in[p, :]
    writes @w on p [rank, :]
  tile.tasks @use (s) in (2) on aiv
    kernel "count_tokens"
    reads @w[s, :]
    writes @sums[s, :]
  tile.tasks @end () in () on aiv
    kernel "count_tokens"
    reads @sums[:, :]
    writes @out[:]
  queue.event @put_done (2) count 1
  queue.event @used () count 4
  queue.signal @put (p) to @put_done (rank) on p
  queue.signal @use (s) to @used () on 0
  queue.signal @use (s) to @used () on 1
  queue.wait @use (s) for @put_done (s)
  queue.wait @end () for @used ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@put[0], @use[1], @end[0]],
    [@put[1], @use[0]],
    [] times 46
  }
}

// -----

// Nothing to run.
// CHECK: queue.program @nothing
// CHECK: [] times 48
queue.program @nothing ranks 2 machine "ascend-a3" {
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Puts that all signal tell what they came after, and keep the ranks within a launch of each other.
// CHECK: queue.program @p
// CHECK: queue.order aiv
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x6xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @y input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @a workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @counts window copies 2 : !tile.buffer<2x12xi32>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @first () in () on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @a[:, :]
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @a[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @use () in () on aiv
    kernel "copy_rows" using @route
    reads @a[:, :]
    writes @out[:, :]
  queue.event @exchange_done () count 2
  queue.event @build_route_done () count 1
  queue.event @first_done () count 1
  queue.event @put_done () count 6
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @build_route_done ()
  queue.signal @first () to @first_done ()
  queue.signal @put (p, e) to @put_done () on p
  queue.wait @build_route () for @exchange_done ()
  queue.wait @put (p, e) for @build_route_done ()
  queue.wait @put (p, e) for @first_done ()
  queue.wait @use () for @put_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0]],
    [@first[0], @put[0, 1, 2, 3, 4, 5]],
    [@use[0]],
    [] times 45
  }
}

// -----

// Puts without rows are counted by @build_route: what else is needed is waited for.
// CHECK: queue.program @p
// CHECK: queue.order aiv
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x6xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @y input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @a workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @counts window copies 2 : !tile.buffer<2x12xi32>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @first () in () on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @a[:, :]
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @a[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @use () in () on aiv
    kernel "copy_rows" using @route
    reads @a[:, :]
    writes @out[:, :]
  queue.event @exchange_done () count 2 copies 2
  queue.event @build_route_done () count 1
  queue.event @first_done () count 1
  queue.event @put_done () count 6
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @build_route_done ()
  queue.signal @first () to @first_done ()
  queue.signal @put (p, e) to @put_done () on p credited by @build_route
  queue.wait @build_route () for @exchange_done ()
  queue.wait @put (p, e) for @build_route_done ()
  queue.wait @put (p, e) for @first_done ()
  queue.wait @use () for @put_done ()
  queue.wait @use () for @first_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0]],
    [@first[0], @put[0, 1, 2, 3, 4, 5]],
    [@use[0]],
    [] times 45
  }
}
