// RUN: HPMOE_INVALID

// Events of other experts and ranks.
queue.program @ranges ranks 2 machine "ascend-a3" {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @copy (t) in (5) on aiv
    kernel "copy_rows" using @route
    reads @y[tile(t of 5 by 16), :]
    writes @z[tile(t of 5 by 16), :]
  queue.event @put (3, 4) count 1
  // CHECK: invalid-ranges.mlir:[[# @LINE + 1]]:3: error: queue.wait: @copy: parts(t of 5 by 16): expected events (3, 2), found (3, 4)
  queue.wait @copy (t) for @put (parts(t of 5 by 16))
}

// -----

// The range already stands for both coordinates.
queue.program @ranges ranks 2 machine "ascend-a3" {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @copy (t) in (5) on aiv
    kernel "copy_rows" using @route
    reads @y[tile(t of 5 by 16), :]
    writes @z[tile(t of 5 by 16), :]
  queue.event @put (3, 2) count 1
  // CHECK-NEXT: invalid-ranges.mlir:[[# @LINE + 1]]:3: error: queue.wait: @put has 2 coordinates, found 3
  queue.wait @copy (t) for @put (parts(t of 5 by 16), t)
}

// -----

// A tile that there is not.
queue.program @ranges ranks 2 machine "ascend-a3" {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @copy (t) in (5) on aiv
    kernel "copy_rows" using @route
    reads @y[tile(t of 5 by 16), :]
    writes @z[tile(t of 5 by 16), :]
  queue.event @put (3, 2) count 1
  // CHECK-NEXT: invalid-ranges.mlir:[[# @LINE + 1]]:3: error: queue.wait: @copy: event coordinate t + 1 is 1 to 5, expected 0 to 4
  queue.wait @copy (t) for @put (parts(t + 1 of 5 by 16))
}

// -----

// Fewer tiles than experts.
queue.program @ranges ranks 2 machine "ascend-a3" {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @y workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @z workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @copy (t) in (5) on aiv
    kernel "copy_rows" using @route
    reads @y[tile(t of 5 by 16), :]
    writes @z[tile(t of 5 by 16), :]
  queue.event @put (3, 2) count 1
  // CHECK-NEXT: invalid-ranges.mlir:[[# @LINE + 1]]:3: error: queue.wait: @copy: parts(t of 2 by 16): expected a tile for each of 3 local experts, found 2
  queue.wait @copy (t) for @put (parts(t of 2 by 16))
}

// -----

// A signal is for one event.
// CHECK-NEXT: invalid-ranges.mlir:[[# @LINE + 1]]:54: error: a task signals one event, not a range of them
queue.signal @copy (t) to @put (parts(t of 5 by 16)) on rank
