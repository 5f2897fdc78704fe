// RUN: hpmoe-opt %s -p verify-queues | filecheck %s

// One cut is written in full, another in part.
// CHECK: queue.program @a
queue.program @a ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w2 (e, c) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1, chunk c of 2 by 1), :]
    writes @h[grouped(e, 0 of 1, chunk c of 2 by 1), :]
  tile.tasks @w3 (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1, chunk 0 of 3 by 1), :]
    writes @h[grouped(e, 0 of 1, chunk 0 of 3 by 1), :]
  tile.tasks @r (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @h[grouped(e, 0 of 1), :]
    writes @out[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w2[0, 1, 2, 3, 4, 5], @w3[0, 1, 2], @r[0, 1, 2]],
    [] times 47
  }
}

// Each cut for experts of its own.
// CHECK: queue.program @b
queue.program @b ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w2 (e, c) in (2, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1, chunk c of 2 by 1), :]
    writes @h[grouped(e, 0 of 1, chunk c of 2 by 1), :]
  tile.tasks @w3 (g, c) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(2, g of 2, chunk c of 3 by 1), :]
    writes @h[grouped(2, g of 2, chunk c of 3 by 1), :]
  tile.tasks @r (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @h[grouped(e, 0 of 1), :]
    writes @out[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w2[0, 1, 2, 3], @w3[0, 1, 2, 3, 4, 5], @r[0, 1, 2]],
    [] times 47
  }
}

// The reader's cut is one of the two.
// CHECK: queue.program @c
queue.program @c ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w2 (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1, chunk 1 of 2 by 1), :]
    writes @h[grouped(e, 0 of 1, chunk 1 of 2 by 1), :]
  tile.tasks @w3 (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1, chunk 0 of 3 by 1), :]
    writes @h[grouped(e, 0 of 1, chunk 0 of 3 by 1), :]
  tile.tasks @r (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @h[grouped(e, 0 of 1, chunk 1 of 2 by 1), :]
    writes @out[grouped(e, 0 of 1, chunk 1 of 2 by 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w2[0, 1, 2], @w3[0, 1, 2], @r[0, 1, 2]],
    [] times 47
  }
}

// A whole buffer, written as a whole.
// CHECK: queue.program @d
queue.program @d ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w () in () on aiv
    kernel "copy_rows" using @route
    reads @x[:, :]
    writes @h[:, :]
  tile.tasks @r () in () on aiv
    kernel "copy_rows" using @route
    reads @h[:, :]
    writes @out[:, :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0], @r[0]],
    [] times 47
  }
}

// Rows that are listed.
// CHECK: queue.program @e
queue.program @e ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 1024 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 4096 : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @k workspace at 8192 : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x12xi32>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (x) in (6) on aiv
    kernel "copy_rows" using @route
    reads @s[sent(x), :]
    writes @b[sent(x), :]
  tile.tasks @r () in () on aiv
    kernel "sum_copies" using @route
    reads @b[:, :], @place[tokens(0 of 1), :]
    writes @sums[tokens(0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2, 3, 4, 5], @r[0]],
    [] times 47
  }
}

// Two launches later, the peer has said that it has ended the first.
// CHECK: queue.program @f
queue.program @f ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  tile.buffer @w window copies 2 at 0 : !tile.buffer<2x16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @w[:, :]
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @w[:, :]
    writes @out[:, :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @y[:, :]
    writes @w on (rank + 1) mod 2 [:, :]
  queue.event @a_done () count 1 line 0
  queue.event @r_done () count 1 line 1
  queue.signal @a (i) to @a_done ()
  queue.signal @r (i) to @r_done () on (rank + 1) mod 2
  queue.wait @r (i) for @a_done ()
  queue.wait @b (i) for @r_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@a[0]],
    [@r[0]],
    [@b[0]],
    [] times 45
  }
}

// Reports of waits after the windows.
// CHECK: queue.program @g
queue.program @g ranks 2 machine "ascend-a3" counters at 128 budget 1000000 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  tile.buffer @w window copies 2 at 0 : !tile.buffer<2x16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @w[:, :]
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @w[:, :]
    writes @out[:, :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @y[:, :]
    writes @w on (rank + 1) mod 2 [:, :]
  queue.event @a_done () count 1 line 0
  queue.event @r_done () count 1 line 1
  queue.signal @a (i) to @a_done ()
  queue.signal @r (i) to @r_done () on (rank + 1) mod 2
  queue.wait @r (i) for @a_done ()
  queue.wait @b (i) for @r_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@a[0]],
    [@r[0]],
    [@b[0]],
    [] times 45
  }
}
