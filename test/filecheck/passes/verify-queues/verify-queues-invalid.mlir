// RUN: REJECTED hpmoe-opt %s --split-input-file -p verify-queues | filecheck %s --match-full-lines

// A wait is missing.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  // CHECK: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second (0) on rank 0 reads @b[0, :], which @first (0) on rank 0 writes; it may start before that has ended: the first signals @first_done[0] on rank 0, the second waits for nothing; missing is its wait for @first_done[0] on rank 0
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.event @first_done (2) count 1
  queue.signal @first (i) to @first_done (i)
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

// A wait for another event.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second (1) on rank 0 reads @b[1, :], which @first (1) on rank 0 writes; it may start before that has ended: the first signals @first_done[1] on rank 0, the second waits for @first_done[0] on rank 0; missing is its wait for @first_done[1] on rank 0
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.event @first_done (2) count 1
  queue.signal @first (i) to @first_done (i)
  queue.wait @second (i) for @first_done (0)
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

// No event at all.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second (0) on rank 0 reads @b[0, :], which @first (0) on rank 0 writes; it may start before that has ended: the first signals nothing, the second waits for nothing; missing is a signal of the first to rank 0
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
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

// A threshold too high, and one too low.
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
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @first_done[1] on rank 0 has threshold 2, @first (1) on rank 0 signals it: @second (1) on rank 0 would wait for ever
  queue.event @first_done (2) count [1, 2]
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
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @first_done[] on rank 0 has threshold 1, 2 tasks signal it, such as @first (0) on rank 0: @second (0) on rank 0 may start before all of them have ended
  queue.event @first_done () count 1
  queue.signal @first (i) to @first_done ()
  queue.wait @second (i) for @first_done ()
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
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @first_done[0] on rank 0 has threshold 1, no task signals it: @second (0) on rank 0 would wait for ever
  queue.event @first_done (2) count 1
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

// Queues that wait for each other.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: the queues cannot end, these tasks wait for each other: @second (1) on rank 0 (aiv0) waits for @first_done[1] on rank 0, which @first (1) on rank 0 signals; that is behind @second (0) on rank 0 in the queue of aiv1; @second (0) on rank 0 (aiv1) waits for @first_done[0] on rank 0, which @first (0) on rank 0 signals; that is behind @second (1) on rank 0 in the queue of aiv0
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
    [@second[1], @first[0]],
    [@second[0], @first[1]],
    [] times 46
  }
}

// -----

queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: the queues cannot end, these tasks wait for each other: @second (0) on rank 0 (aiv0) waits for @first_done[0] on rank 0, which @first (0) on rank 0 signals; that is behind @second (0) on rank 0 in the queue of aiv0
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
    [@second[0], @first[0]],
    [@first[1], @second[1]],
    [] times 46
  }
}

// -----

// Two tasks of one family at one place.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @first (1) on rank 0 writes @b[0, :], which @first (0) on rank 0 writes; it may start before that has ended: the first signals @first_done[0] on rank 0, the second waits for nothing; missing is its wait for @first_done[0] on rank 0
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[0, :]
  queue.event @first_done (2) count 1
  queue.signal @first (i) to @first_done (i)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0]],
    [@first[1]],
    [] times 46
  }
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @w window : !tile.buffer<2x8xi32>
  tile.buffer @sums workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @put (0) on rank 0 and @put (0) on rank 1 both use @w on 0 [0, :], and nothing orders them; each rank must write parts of its own
  tile.tasks @put (p) in (2) on aiv
    kernel "count_tokens"
    reads @in[p, :]
    writes @w on p [0, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@put[0, 1]],
    [] times 47
  }
}

// -----

// Parts that nobody writes.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @first reads @b, and no family before it writes that buffer in the launch
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0, 1]],
    [] times 47
  }
}

// -----

queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (1) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second () on rank 0 reads @b[:, :], of which no task writes dimension 0, index 1
  tile.tasks @second () in () on aiv
    kernel "count_tokens"
    reads @b[:, :]
    writes @out[0, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0], @second[0]],
    [] times 47
  }
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @w window : !tile.buffer<2x8xi32>
  tile.buffer @sums workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<8xi32>
  tile.tasks @put (p) in (1) on aiv
    kernel "count_tokens"
    reads @in[p, :]
    writes @w on 0 [rank, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @use (0) on rank 1 reads @w[0, :], and no task writes it on that rank
  tile.tasks @use (s) in (2) on aiv
    kernel "count_tokens"
    reads @w[s, :]
    writes @sums[s, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@put[0], @use[0, 1]],
    [] times 47
  }
}

// -----

// Two buffers that share memory, before the uses of the first are over.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace at 0 : !tile.buffer<2x8xi32>
  tile.buffer @c workspace at 0 : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @third (0) on rank 0 writes @c[0, :], which shares memory with @b[0, :], which @second (0) on rank 0 reads; it may start before that has ended: the first signals nothing, the second waits for nothing; missing is a signal of the first to rank 0
  tile.tasks @third (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @c[i, :]
  queue.event @first_done (2) count 1
  queue.signal @first (i) to @first_done (i)
  queue.wait @second (i) for @first_done (i)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0], @second[1], @third[0]],
    [@first[1], @second[0], @third[1]],
    [] times 46
  }
}

// -----

queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace at 0 : !tile.buffer<2x8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @c and @b share memory, and the program uses both at the same time: @second uses the first before @third uses the second, and the other way round
  tile.buffer @c workspace at 0 : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @c[i, :]
  tile.tasks @third (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0, 1], @second[0, 1], @third[0, 1]],
    [] times 47
  }
}

// -----

// The next launch may overwrite what a peer still reads.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @w window : !tile.buffer<2x8xi32>
  tile.buffer @sums workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @put (0) on rank 1 may write @w on 0 [1, :] in launch n + 1 while @use (1) on rank 0 has not read @w[1, :] in launch n: in a launch nothing that the first waits for comes from rank 0, and nothing on rank 1 waits for the second; missing is an event between the two ranks, or a second copy of the window
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
  queue.event @used () count 2
  queue.signal @put (p) to @put_done (rank) on p
  queue.signal @use (s) to @used ()
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

// An event may count the next launch's signal of one peer for this one's of another.
queue.program @p ranks 3 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @w window copies 2 : !tile.buffer<3x8xi32>
  tile.buffer @out output : !tile.buffer<8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @put_done[] on rank 0 may count @put (0) on rank 0 in launch n + 1 before @put (0) on rank 1 in launch n, and be reached without it: in a launch nothing that the first waits for comes from rank 1, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the event
  tile.tasks @put (p) in (3) on aiv
    kernel "count_tokens"
    reads @in[0, :]
    writes @w on p [rank, :]
  queue.event @put_done () count 3
  queue.signal @put (p) to @put_done () on p
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@put[0, 1, 2]],
    [] times 47
  }
}

// -----

// Two counters in one line, counters inside a window, counters that are not on a line.
queue.program @p ranks 1 machine "ascend-a3" counters at 0 {
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
  queue.event @first_done (2) count 1 line 0
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second_done and @first_done share the cache line 1: each counter needs a line of its own
  queue.event @second_done () count 2 line 1
  queue.signal @first (i) to @first_done (i)
  queue.signal @second (i) to @second_done ()
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

queue.program @p ranks 1 machine "ascend-a3" counters at 0 {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @b covers bytes 0 to 64 of the windows, the counters 0 to 128: they overlap
  tile.buffer @b window at 0 : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  tile.tasks @second (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @out[i, :]
  queue.event @first_done (2) count 1 line 0
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

// CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:1: error: verify-queues: the counters at 32 are not at a multiple of 64 bytes, the machine's cache line
queue.program @p ranks 1 machine "ascend-a3" counters at 32 {
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
  queue.event @first_done (2) count 1 line 0
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

// Local memory that no core has.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @w input : !tile.buffer<64x64xbf16>
  tile.buffer @y output : !tile.buffer<16x64xbf16>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @matmul, kernel 'grouped_matmul': needs 262144 bytes of L0C, ascend-a3 has 131072
  tile.tasks @matmul () in () on aic
    kernel "grouped_matmul" {tile_m = 256 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @w[:, :]
    writes @y[:, :]
  queue.order aic {
    [@matmul[0]],
    [] times 23
  }
  queue.order aiv {
    [] times 48
  }
}

// -----

// Queues that are not there.
// CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:1: error: verify-queues: @p has no order for the aic cores; run assign-queues before it, and expand-tasks after it
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, :]
  queue.order aiv {
    [@first[0, 1]],
    [] times 47
  }
}

// -----

// Half of the rows, read by tasks that cut them in another way.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<tokens 8 rows, 16xbf16>
  tile.buffer @b workspace : !tile.buffer<tokens 8 rows, 16xbf16>
  tile.buffer @out output : !tile.buffer<tokens 8 rows, 16xbf16>
  tile.tasks @first () in () on aiv
    kernel "copy_rows"
    reads @in[tokens(0 of 2), :]
    writes @b[tokens(0 of 2), :]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second (0) on rank 0 reads @b[tokens(0 of 3), :], of which no task writes chunk 1
  tile.tasks @second (c) in (3) on aiv
    kernel "copy_rows"
    reads @b[tokens(c of 3), :]
    writes @out[tokens(c of 3), :]
  queue.event @first_done () count 1
  queue.signal @first () to @first_done ()
  queue.wait @second (c) for @first_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0], @second[0, 1, 2]],
    [] times 47
  }
}

// -----

// All rows and all columns, but not all of both.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x8xi32>
  tile.buffer @b workspace : !tile.buffer<2x8xi32>
  tile.buffer @out output : !tile.buffer<2x8xi32>
  tile.tasks @first (i) in (2) on aiv
    kernel "count_tokens"
    reads @in[i, :]
    writes @b[i, block(i by 4)]
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @second () on rank 0 reads @b[:, :], of which no task writes dimension 1, index 4 of dimension 0, index 0
  tile.tasks @second () in () on aiv
    kernel "count_tokens"
    reads @b[:, :]
    writes @out[0, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@first[0, 1], @second[0]],
    [] times 47
  }
}

// -----

// A put without rows tells nobody what it came after, although one of the puts is of the own rank.
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
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @use () on rank 0 reads @a[:, :], which @first () on rank 0 writes; it may start before that has ended: the first signals @first_done[] on rank 0, the second waits for @put_done[] on rank 0; missing is its wait for @first_done[] on rank 0
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

// The task that counts the puts without rows is behind one that waits for them.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x6xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @y input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<grouped 20 rows, 48xbf16>
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
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: the queues cannot end, these tasks wait for each other: @use () on rank 0 (aiv0) waits for @put_done[] on rank 0, which @build_route () on rank 0 signals; that is behind @use () on rank 0 in the queue of aiv0
  tile.tasks @use () in () on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(0, 0 of 1), :]
    writes @out[grouped(0, 0 of 1), :]
  queue.event @exchange_done () count 2 copies 2
  queue.event @build_route_done () count 1
  queue.event @first_done () count 1
  queue.event @put_done () count 6
  queue.signal @exchange (p) to @exchange_done () on p
  queue.signal @build_route () to @build_route_done ()
  queue.signal @first () to @first_done ()
  queue.signal @put (p, e) to @put_done () on p credited by @build_route
  queue.wait @build_route () for @exchange_done ()
  queue.wait @put (p, e) for @first_done ()
  queue.wait @use () for @put_done ()
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@exchange[0, 1], @use[0], @build_route[0]],
    [@first[0], @put[0, 1, 2, 3, 4, 5]],
    [],
    [] times 45
  }
}

// -----

// Puts without rows say nothing of their rank: a peer may be a launch ahead, and its counts come with those of this launch.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @in input : !tile.buffer<2x6xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @y input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @a workspace : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @counts window copies 2 : !tile.buffer<2x12xi32>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  // CHECK-NEXT: verify-queues-invalid.mlir:[[# @LINE + 1]]:3: error: verify-queues: @exchange_done[] on rank 1 may count @exchange (1) on rank 0 in launch n + 1 before @exchange (1) on rank 1 in launch n, and be reached without it: in a launch nothing that the first waits for comes from rank 1, and nothing on rank 0 waits for the second; missing is an event between the two ranks, or a second copy of the event
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
    reads @recv[grouped(0, 0 of 1), :]
    writes @out[grouped(0, 0 of 1), :]
  queue.event @exchange_done () count 2
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
