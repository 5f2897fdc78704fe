// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// A rank may write its own window in a launch while a peer's put of the launch before is on its way.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  tile.buffer @w window at 0 : !tile.buffer<2x16xbf16>
  // CHECK: next-launch-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @a (0) on rank 0 may write @w[:, :] in launch n + 1 while @b (0) on rank 1 has not written @w on 0 [:, :] in launch n: in a launch nothing that the first waits for comes from rank 1, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the window
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

// -----

// Also with three ranks, where the put comes from the rank before.
queue.program @p ranks 3 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  tile.buffer @w window at 0 : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: next-launch-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @a (0) on rank 0 may write @w[:, :] in launch n + 1 while @b (0) on rank 2 has not written @w on 0 [:, :] in launch n: in a launch nothing that the first waits for comes from rank 2, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the window
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
    writes @w on (rank + 1) mod 3 [:, :]
  queue.event @a_done () count 1 line 0
  queue.event @r_done () count 1 line 1
  queue.signal @a (i) to @a_done ()
  queue.signal @r (i) to @r_done () on (rank + 2) mod 3
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

// -----

// A rank reads what its peer put; a second put of the peer, later in the launch, has no reader that
// the next launch would have to wait for.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  tile.buffer @w window copies 2 at 0 : !tile.buffer<2x16xbf16>
  tile.buffer @v window at 512 : !tile.buffer<4x16xbf16>
  // CHECK-NEXT: next-launch-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @a (0) on rank 0 may write @v[block(0 by 2), :] in launch n + 1 while @c (0) on rank 1 has not written @v on 0 [block(0 by 2), :] in launch n: in a launch nothing that the first waits for comes from rank 1, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the window
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @v[block(0 by 2), :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @v on (rank + 1) mod 2 [block(1 by 2), :]
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @v[block(0 by 2), :]
    writes @out[:, :]
  tile.tasks @c (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @v on (rank + 1) mod 2 [block(0 by 2), :]
  queue.event @r_done () count 1 line 0
  queue.signal @r (i) to @r_done () on (rank + 1) mod 2
  queue.wait @c (i) for @r_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@a[0], @r[0]],
    [@b[0]],
    [@c[0]],
    [] times 45
  }
}

// -----

// Two windows in one memory: the put of the second is after the uses of the first, in one launch.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  tile.buffer @v window at 0 : !tile.buffer<2x16xbf16>
  tile.buffer @w window at 0 : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: next-launch-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @a (0) on rank 0 may write @v[:, :] in launch n + 1 while @b (0) on rank 1 has not written @w on 0 [:, :] in launch n: in a launch nothing that the first waits for comes from rank 1, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the window
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @v[:, :]
  tile.tasks @r (i) in (1) on aiv
    kernel "copy_rows"
    reads @v[:, :]
    writes @out[:, :]
  tile.tasks @b (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @w on (rank + 1) mod 2 [:, :]
  queue.event @r_done () count 1 line 0
  queue.signal @r (i) to @r_done () on (rank + 1) mod 2
  queue.wait @b (i) for @r_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@a[0], @r[0]],
    [@b[0]],
    [] times 46
  }
}

// -----

// A put that is credited: where it has rows it is on its way when the peer's next launch begins,
// since nobody there waits for its event.
queue.program @p ranks 2 machine "ascend-a3" counters at 8192 {
  tile.buffer @in input : !tile.buffer<1x6xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @y input : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @counts window copies 2 at 4096 : !tile.buffer<2x12xi32>
  tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @in[:, :]
    writes @counts on p [rank, :]
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  // CHECK-NEXT: next-launch-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @first () on rank 0 may write @recv[:, :] in launch n + 1 while @put (0, 0) on rank 1 has not written @recv on 0 [grouped(0, 1 of 2), :] in launch n: in a launch nothing that the first waits for comes from rank 1, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the window
  tile.tasks @first () in () on aiv
    kernel "copy_rows"
    reads @y[:, :]
    writes @recv[:, :]
  tile.tasks @use () in () on aiv
    kernel "copy_rows"
    reads @recv[:, :]
    writes @out[:, :]
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  queue.event @exchange_done () count 2 copies 2 line 0
  queue.event @build_route_done () count 1 line 2
  queue.event @use_done (2) count 1 line 3
  queue.event @put_done () count 6 line 5
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @build_route_done ()
  queue.signal @use () to @use_done (rank) on 0
  queue.signal @use () to @use_done (rank) on 1
  queue.signal @put (p, e) to @put_done () on p credited by @build_route
  queue.wait @build_route () for @exchange_done ()
  queue.wait @put (p, e) for @build_route_done ()
  queue.wait @put (p, e) for @use_done (p)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @build_route[0]],
    [@first[0], @use[0]],
    [@put[0, 1, 2, 3, 4, 5]],
    [] times 45
  }
}
