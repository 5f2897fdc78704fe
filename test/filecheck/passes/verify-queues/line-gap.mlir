// RUN: hpmoe-opt %s -p verify-queues | filecheck %s

// CHECK: queue.program @p
// Thresholds are looked up by line: lines that hold no counter have one, too.
queue.program @p ranks 1 machine "ascend-a3" counters at 8192 {
  tile.buffer @x input : !tile.buffer<tokens 16 rows, 16xbf16>
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
    reads @h[tokens(0 of 1), :]
    writes @out[tokens(0 of 1), :]
  queue.event @a_done () count 1 line 0
  queue.event @b_done () count 1 line 9
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
