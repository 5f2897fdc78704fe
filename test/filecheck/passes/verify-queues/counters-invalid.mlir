// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// A window where cores report waits that exceed their budget.
queue.program @p ranks 2 machine "ascend-a3" counters at 0 budget 1000000 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 128 to 256 of the windows, the reports of waits that exceed their budget 128 to 4736: they overlap
  tile.buffer @w window copies 2 at 128 : !tile.buffer<2x16xbf16>
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

// In the line of the last core.
queue.program @p ranks 2 machine "ascend-a3" counters at 0 budget 1000000 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 4672 to 4800 of the windows, the reports of waits that exceed their budget 128 to 4736: they overlap
  tile.buffer @w window copies 2 at 4672 : !tile.buffer<2x16xbf16>
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

// After lines that hold no counter.
queue.program @p ranks 2 machine "ascend-a3" counters at 0 budget 1000000 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 704 to 832 of the windows, the reports of waits that exceed their budget 640 to 5248: they overlap
  tile.buffer @w window copies 2 at 704 : !tile.buffer<2x16xbf16>
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
  queue.event @r_done () count 1 line 9
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

// After the two counters of an event.
queue.program @p ranks 2 machine "ascend-a3" counters at 0 budget 1000000 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 192 to 320 of the windows, the reports of waits that exceed their budget 192 to 4800: they overlap
  tile.buffer @w window copies 2 at 192 : !tile.buffer<2x16xbf16>
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
  queue.event @r_done () count 1 copies 2 line 1
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

// The second copy of a window, before the counters.
queue.program @p ranks 2 machine "ascend-a3" counters at 64 budget 1000000 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 0 to 128 of the windows, the counters 64 to 192: they overlap
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

// -----

// With pauses between two polls.
queue.program @p ranks 2 machine "ascend-a3" counters at 0 budget 1000000 poll_aic 100 poll_aiv 200 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 256 to 384 of the windows, the reports of waits that exceed their budget 128 to 4736: they overlap
  tile.buffer @w window copies 2 at 256 : !tile.buffer<2x16xbf16>
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

// A window between counters.
queue.program @p ranks 2 machine "ascend-a3" counters at 0 {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y input : !tile.buffer<2x16xbf16>
  tile.buffer @out output : !tile.buffer<2x16xbf16>
  // CHECK-NEXT: counters-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @w covers bytes 128 to 256 of the windows, the counters 0 to 640: they overlap
  tile.buffer @w window copies 2 at 128 : !tile.buffer<2x16xbf16>
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
  queue.event @r_done () count 1 line 9
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
