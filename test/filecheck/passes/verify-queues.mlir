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
