// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// Half of the rows, and a third of them: not all.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @out output : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 2), :]
    writes @h[tokens(0 of 2), :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 3), :]
    writes @h[tokens(0 of 3), :]
  // CHECK: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (0) on rank 0 reads @h[tokens(0 of 1), :], of which tasks write @h[tokens(0 of 2), :] and @h[tokens(0 of 3), :]: not all parts of one of these cuts
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @h[tokens(0 of 1), :]
    writes @out[tokens(0 of 1), :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 1
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

// -----

// The same, read by `:`.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @out output : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @g workspace at 4096 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 2), :]
    writes @h[tokens(0 of 2), :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 3), :]
    writes @h[tokens(0 of 3), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (0) on rank 0 reads @h[:, :], all 16 rows that the buffer holds, and @b writes only the tokens rows of the launch; expected tokens(...)
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @h[:, :]
    writes @g[:, :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 1
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

// -----

// Read as the second writer cuts them.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @out output : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 2), :]
    writes @h[tokens(0 of 2), :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 3), :]
    writes @h[tokens(0 of 3), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (0) on rank 0 reads @h[tokens(1 of 3), :], of which no task writes chunk 1
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @h[tokens(1 of 3), :]
    writes @out[tokens(1 of 3), :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 1
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

// -----

// Rows of experts in two chunks, of which the first is written, and in three, of which two are.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w2 (e, g) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, g of 2, chunk 0 of 2 by 1), :]
    writes @h[grouped(e, g of 2, chunk 0 of 2 by 1), :]
  tile.tasks @w3 (e, g, c) in (3, 2, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, g of 2, chunk c of 3 by 1), :]
    writes @h[grouped(e, g of 2, chunk c of 3 by 1), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (0) on rank 0 reads @h[grouped(0, 0 of 1), :], of which tasks write @h[grouped(e, g of 2, chunk 0 of 2 by 1), :] and @h[grouped(e, g of 2, chunk c of 3 by 1), :]: not all parts of one of these cuts
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
    [@exchange[0, 1], @build_route[0], @w2[0, 1, 2, 3, 4, 5], @w3[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], @r[0, 1, 2]],
    [] times 47
  }
}

// -----

// All rows of one expert and half of another's, cut at other multiples than a third family's.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w1 (e) in (1) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  tile.tasks @w2 (e) in (1) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e + 1, 0 of 1, chunk 0 of 2 by 16), :]
    writes @h[grouped(e + 1, 0 of 1, chunk 0 of 2 by 16), :]
  tile.tasks @w3 (e) in (2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e + 1, 0 of 1, chunk e of 2 by 8), :]
    writes @h[grouped(e + 1, 0 of 1, chunk e of 2 by 8), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (1) on rank 0 reads @h[grouped(1, 0 of 1), :], of which no task writes source rank 0 of expert 1 of chunk 0
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
    [@exchange[0, 1], @build_route[0], @w1[0], @w2[0], @w3[0, 1], @r[0, 1, 2]],
    [] times 47
  }
}

// -----

// Rows sent to experts, a chunk in two cuts.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w2 (x) in (6) on aiv
    kernel "copy_rows" using @route
    reads @s[sent(x, chunk 0 of 2 by 1), :]
    writes @b[sent(x, chunk 0 of 2 by 1), :]
  tile.tasks @w4 (x) in (6) on aiv
    kernel "copy_rows" using @route
    reads @s[sent(x, chunk 1 of 2 by 2), :]
    writes @b[sent(x, chunk 1 of 2 by 2), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r () on rank 0 reads @b[:, :], of which tasks write @b[sent(x, chunk 0 of 2 by 1), :] and @b[sent(x, chunk 1 of 2 by 2), :]: not all parts of one of these cuts
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
    [@exchange[0, 1], @build_route[0], @w2[0, 1, 2, 3, 4, 5], @w4[0, 1, 2, 3, 4, 5], @r[0]],
    [] times 47
  }
}

// -----

// `:` of rows whose number is known at run time only is the whole buffer.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @out output : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @g workspace at 4096 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @h workspace at 0 : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 1), :]
    writes @h[tokens(0 of 1), :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[tokens(0 of 1), :]
    writes @h[tokens(0 of 1), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (0) on rank 0 reads @h[:, :], all 16 rows that the buffer holds, and @b writes only the tokens rows of the launch; expected tokens(...)
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @h[:, :]
    writes @g[:, :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 1
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

// -----

// The same of the rows of experts.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r () on rank 0 reads @h[:, :], all 20 rows that the buffer holds, and @w writes only the grouped rows of the launch; expected grouped(...)
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
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2], @r[0]],
    [] times 47
  }
}

// -----

// The same of the rows that are sent, by columns.
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
  tile.buffer @s2 output : !tile.buffer<sent 14 rows, 48xbf16>
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
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r (0) on rank 0 reads @b[:, block(0 by 32)], all 14 rows that the buffer holds, and @w writes only the sent rows of the launch; expected sent(...)
  tile.tasks @r (n) in (2) on aiv
    kernel "copy_rows" using @route
    reads @b[:, block(n by 32)]
    writes @s2[:, block(n by 32)]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @route_done () count 1 line 2
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @route_done ()
  queue.wait @build_route () for @exchange_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2, 3, 4, 5], @r[0, 1]],
    [] times 47
  }
}

// -----

// One operand of two.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r () on rank 0 reads @h[:, :], all 20 rows that the buffer holds, and @w writes only the grouped rows of the launch; expected grouped(...)
  tile.tasks @r () in () on aiv
    kernel "add_rows" using @route
    reads @x[:, :], @h[:, :]
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
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2], @r[0]],
    [] times 47
  }
}

// -----

// A kernel that looks up sent rows is given those of experts.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (e) in (3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r, kernel 'sum_copies': expected all sent rows of 'back', `:`, of which others list some, found @h[:, :] of !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @r () in () on aiv
    kernel "sum_copies" using @route
    reads @h[:, :], @place[tokens(0 of 1), :]
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
    [@exchange[0, 1], @build_route[0], @w[0, 1, 2], @r[0]],
    [] times 47
  }
}

// -----

// Tasks without a route run even if the routing exceeds the capacity; those that write do not.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w () in () on aiv
    kernel "copy_rows" using @route
    reads @t[tokens(0 of 1), :]
    writes @k[tokens(0 of 1), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r () on rank 0 reads @k[tokens(0 of 1), :], and @w, which writes @k[tokens(0 of 1), :], does not run if it has no rows, as when the routing exceeds the capacity
  tile.tasks @r () in () on aiv
    kernel "copy_rows"
    reads @k[tokens(0 of 1), :]
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
    [@exchange[0, 1], @build_route[0], @w[0], @r[0]],
    [] times 47
  }
}

// -----

// Rows are looked up without a route, which nobody has put if the routing exceeds the capacity.
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
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @w (x) in (6) on aiv
    kernel "copy_rows" using @route
    reads @s[sent(x), :]
    writes @b[sent(x), :]
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @r () on rank 0 reads @b[:, :], and @w, which writes @b[sent(x), :], does not run if it has no rows, as when the routing exceeds the capacity
  tile.tasks @r () in () on aiv
    kernel "sum_copies"
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

// -----

// A sum into memory that nobody has set to anything.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @y input : !tile.buffer<16x32xbf16>
  tile.buffer @dw output : !tile.buffer<64x32xf32>
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @gradient reads @dw, and no family before it writes that buffer in the launch
  tile.tasks @gradient () in () on aic
    kernel "weight_gradient" {tile_m = 64 : i64, tile_n = 32 : i64, tile_k = 16 : i64, accumulate = 1 : i64}
    reads @x[:, :], @y[:, :]
    writes @dw[:, :]
  queue.order aic {
    [@gradient[0]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// A result that no task writes.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: no task writes the output @out
  tile.buffer @out output : !tile.buffer<tokens 16 rows, 16xbf16>
  tile.buffer @g workspace at 4096 : !tile.buffer<tokens 16 rows, 16xbf16>
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
    writes @g[tokens(0 of 1), :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 1
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

// -----

// A result of which half the tokens are missing.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @out on rank 0 is an output, of which no task writes chunk 0
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
    reads @h[tokens(1 of 2), :]
    writes @out[tokens(1 of 2), :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 1
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

// -----

// A result whose last columns are missing.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x32xbf16>
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @out on rank 0 is an output, of which no task writes dimension 1, index 16
  tile.buffer @out output : !tile.buffer<2x32xbf16>
  tile.tasks @m () in () on aiv
    kernel "copy_rows"
    reads @x[:, block(0 by 16)]
    writes @out[:, block(0 by 16)]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@m[0]],
    [] times 47
  }
}

// -----

// Rows of two of three experts.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @s input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @t input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @place input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @few input : !tile.buffer<4x48xbf16>
  tile.buffer @list input : !tile.buffer<sent 14 rows, i32>
  // CHECK-NEXT: unwritten-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @out on rank 0 is an output, of which no task writes source rank 0 of expert 2 of chunk 0
  tile.buffer @out output : !tile.buffer<grouped 20 rows, 48xbf16>
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
  tile.tasks @w (e) in (2) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, 0 of 1), :]
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
    [@exchange[0, 1], @build_route[0], @w[0, 1]],
    [] times 47
  }
}
