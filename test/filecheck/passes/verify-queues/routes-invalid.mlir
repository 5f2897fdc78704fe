// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// Rows of two routes.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
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
  // CHECK: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: expected one route, found @route and @other: rows of two routes cannot be compared
  tile.buffer @other workspace at 10240 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
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
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2]],
    [] times 47
  }
}

// -----

// A route that is built again, after its rows were used.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  tile.buffer @out inout : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @sums inout : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status2 output : !tile.buffer<16xi32>
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
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  // CHECK-NEXT: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: expected one task that builds @route in a launch, found 2: rows that were looked up before are others afterwards
  tile.tasks @again () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status2[:]
    scalars (rank, 20)
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2], @again[0]],
    [] times 47
  }
}

// -----

// By two tasks of one family.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
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
  // CHECK-NEXT: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: expected one task that builds @route in a launch, found 2: rows that were looked up before are others afterwards
  tile.tasks @build_route (i) in (2) on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 2 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route (i) to @route_done ()
  queue.wait @build_route (i) for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0, 1], @w[0, 1, 2]],
    [] times 47
  }
}

// -----

// Counts that differ from peer to peer.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<2x1x6xi32>
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
  // CHECK-NEXT: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @exchange writes @counts on p [rank, :], from which a route is built: expected row `rank`, from all of what is read, the same for all ranks
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[p, :, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2]],
    [] times 47
  }
}

// -----

// Counts of half of the tokens.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<2x6xi32>
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
  // CHECK-NEXT: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @exchange writes @counts on p [rank, :], from which a route is built: expected row `rank`, from all of what is read, the same for all ranks
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[block(0 by 1), :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2]],
    [] times 47
  }
}

// -----

// Counts in the place of another rank's.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
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
  // CHECK-NEXT: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @exchange writes @counts on p [(rank + 1) mod 2, :], from which a route is built: expected row `rank`, from all of what is read, the same for all ranks
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [(rank + 1) mod 2, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2]],
    [] times 47
  }
}

// -----

// Counts of the peer, put to itself.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
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
  // CHECK-NEXT: routes-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @exchange writes @counts on rank [p, :], from which a route is built: expected row `rank`, from all of what is read, the same for all ranks
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on rank [p, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done ()
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2]],
    [] times 47
  }
}
