// RUN: HPMOE_INVALID

// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: unknown machine 'ascend-a4'; known: ascend-a2, ascend-a3; did you mean 'ascend-a3'?
queue.program @p ranks 2 machine "ascend-a4" {
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: a program runs on at least one rank, found 0
queue.program @p ranks 0 machine "ascend-a3" {
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: poll_aiv: expected 1 to 2147483647 ticks, found 0
queue.program @p ranks 1 machine "ascend-a3" poll_aiv 0 {
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.event: extents of the events must be positive, found [0]
queue.event @e (0) count 1

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.event: expected 1 or 3 thresholds, found 2
queue.event @e (3) count [1, 2]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.event: a threshold must be positive
queue.event @e (3) count [1, 0, 2]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.event: a cache line cannot be negative, found -1
queue.event @e (3) count 1 line -1

// -----

// Words for a kind of core.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:13: error: Expected one of 'aic', 'aiv' as the kind of core
queue.order gpu {
  []
}

// -----

// A point beyond the 24 bits that a slot has for it.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:7: error: expected a point from 0 to 16777215, found 16777216
queue.order aic {
  [@t[16777216]]
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:7: error: expected a point from 0 to 16777215, found -1
queue.order aic {
  [@t[-1]]
}

// -----

// No core at all.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.order: the first slots of the cores must start at 0, not decrease, and end at the number of slots, 0
queue.order aic {
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.order: the first slots of the cores must start at 0, not decrease, and end at the number of slots, 2
"queue.order"() <{core = "aic", families = [@t], first = array<i32: 0, 2, 1>, slots = array<i32: 0, 1>}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.order: a slot names family 1 of 1
"queue.order"() <{core = "aic", families = [@t], first = array<i32: 0, 2>, slots = array<i32: 0, 16777216>}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:12: error: Expected one of 'aic', 'aiv' as the kind of core
queue.core gpu 0 {
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.core: a core runs queue.task ops, found queue.event
queue.core aic 0 {
  queue.event @e () count 1
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:40: error: unknown coordinate 'x' in an index expression, expected one of rank
"test.op"() {use = #queue.event_use<@e[x]>} : () -> ()

// -----

// Waits and signals of families and events that do not exist, or have other coordinates.
queue.program @p ranks 2 machine "ascend-a3" {
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.wait: no family of tasks @t
  queue.wait @t () for @e ()
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: no family of events @e
  queue.signal @t (b) to @e ()
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.event @e () count 1
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.wait: @t has 1 coordinates, found 2
  queue.wait @t (b, c) for @e ()
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.event @e () count 1
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.wait: @e has 0 coordinates, found 1
  queue.wait @t (b) for @e (b)
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.wait: the event's index uses a coordinate the family does not have
"queue.wait"() <{family = @t, dims = ["b"], event = @e, index = [#tile.index<d1>]}> : () -> ()

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.event @e (4) count 1
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.wait: @t: event coordinate b is 0 to 4, expected 0 to 3
  queue.wait @t (b) for @e (b)
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.event @e (5) count 1
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @t: rank rank + 1 is 1 to 2, expected 0 to 1
  queue.signal @t (b) to @e (b) on rank + 1
}

// -----

queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.event @e () count 1
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @t: the rank uses a coordinate the family does not have
  "queue.signal"() <{family = @t, dims = ["b"], event = @e, index = [], peer = #tile.index<d1>}> : () -> ()
}

// -----

// Orders: each task once, on a core of its kind.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: two orders for the aic cores
queue.program @p ranks 2 machine "ascend-a3" {
  queue.order aic {
    [] times 24
  }
  queue.order aic {
    [] times 24
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: machine 'ascend-a3' has 48 aiv cores, the order has 24
queue.program @p ranks 2 machine "ascend-a3" {
  queue.order aiv {
    [] times 24
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: the order of the aic cores names @t: no such family
queue.program @p ranks 2 machine "ascend-a3" {
  queue.order aic {
    [@t[0]],
    [] times 23
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: @t runs on aiv, found in the order of the aic cores
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.order aic {
    [@t[0, 1, 2, 3, 4]],
    [] times 23
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: task 5 of @t does not exist, it has 5
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.order aiv {
    [@t[0, 1, 2, 3, 4]],
    [@t[5]],
    [] times 46
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: task 2 of @t must be in one queue once, found 2 times
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.order aiv {
    [@t[0, 1, 2, 3, 4]],
    [@t[2]],
    [] times 46
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: task 3 of @t must be in one queue once, found 0 times
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.order aiv {
    [@t[0, 1, 2, 4]],
    [] times 47
  }
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: no queue has the tasks of @t
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  queue.order aic {
    [] times 24
  }
}

// -----

// Regions are checked as in a tile.program.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: @t: @b[:, b, :]: 3 selectors for a buffer of 2 dimensions
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b, :]
}

// -----

// More events than there can be counters.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:3: error: queue.event: a family of events has at most 16777216, found 16781312
queue.program @p ranks 2 machine "ascend-a3" {
  queue.event @e (4096, 4097) count 1
}

// -----

// A threshold that the counter can't hold.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:3: error: queue.event: Integer value 4294967297 is out of range for type i32 which supports values in the range [-2147483648, 4294967296)
queue.program @p ranks 2 machine "ascend-a3" {
  queue.event @e () count 4294967297
}

// -----

// More cores than any machine has.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 3]]:14: error: expected at most 16384 cores, found 16385
queue.program @p ranks 2 machine "ascend-a3" {
  queue.order aic {
    [] times 16385
  }
}

// -----

// A kind of core that no chip has.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:3: error: queue.order: expected the kind of core to be aic or aiv, found s
queue.program @p ranks 2 machine "ascend-a3" {
  "queue.order"() <{core = "s", families = [], first = array<i32: 0, 0>, slots = array<i32>}> : () -> ()
}

// -----

// A kind of core that no chip has, of one core.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.core: expected the kind of core to be aic or aiv, found s
"queue.core"() <{core = "s", number = 0 : i64}> ({
^bb0:
}) : () -> ()

// -----

// Only puts are credited.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @build_route: its tasks signal their own rank; only puts are credited
  queue.signal @put (p, e) to @done (e) credited by @build_route
}

// -----

// Nobody of that name.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @none: no family of tasks @none
  queue.signal @put (p, e) to @done (e) on p credited by @none
}

// -----

// Who does not build the route does not know it when it ends.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @return: expected one task on aiv that writes @route, found 6 on aiv that does not write it
  queue.signal @put (p, e) to @done (e) on p credited by @return
}

// -----

// The receiver counts what it receives, not what others do.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @build_route: its tasks put rows on p and signal on (p + 1) mod 2: the receiver counts only what it receives
  queue.signal @put (p, e) to @done (e) on (p + 1) mod 2 credited by @build_route
}

// -----

// Two puts that differ in their peer only count towards one event of the receiver.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @build_route: p depends on p, by which puts differ in their peer alone
  queue.signal @put (p, e) to @done (p) on p credited by @build_route
}

// -----

// A peer that is told twice.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on e mod 2 [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @build_route: the peer e mod 2 must take each rank once over one coordinate
  queue.signal @put (p, e) to @done (p) on e mod 2 credited by @build_route
}

// -----

// Rows of another source.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, p of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @build_route: @recv on p [grouped(e, p of 2), :]: a put writes the rows of its own rank
  queue.signal @put (p, e) to @done (e) on p credited by @build_route
}

// -----

// Rows of another rank's experts.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @return credited by @build_route: @back on s [sent(e), :]: a put writes the rows of its own experts
  queue.signal @return (e, s) to @done (e) on s credited by @build_route
}

// -----

// Puts that always have rows.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (3) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @exchange credited by @build_route: its tasks use no route, so they always have rows
  queue.signal @exchange (p) to @done (0) on p credited by @build_route
}

// -----

// More events than the device has local memory for.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  tile.tasks @exchange (p) in (2) on aiv
    kernel "exchange_counts"
    reads @counts[:, :]
    writes @recv on p [:, :]
  queue.event @done (5000) count 2
  // CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:3: error: queue.signal: @put credited by @build_route: 5000 events of one family, at most 4096 are credited
  queue.signal @put (p, e) to @done (e) on p credited by @build_route
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.event: expected 1 or 2 copies, found 3
queue.event @e (3) count 1 copies 3

// -----

// The lists are checked as those of tile.program are.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: queue.program: results: expected @x to be listed, which is output
queue.program @p ranks 2 machine "ascend-a3" () -> () {
  tile.buffer @x output : !tile.buffer<5xi32>
}
