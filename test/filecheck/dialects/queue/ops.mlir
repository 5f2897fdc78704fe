// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

// Events, waits and signals, on the own rank and on a peer, and orders with idle cores.
queue.program @layer ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.tasks @p (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, rank of 2), :]
    writes @b on p [grouped(e, rank of 2), :]
  tile.tasks @q (e, g) in (3, 2) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 32 : i64, transpose_rhs = 0 : i64} using @route
    reads @b[grouped(e, g of 2), :], @w[e, :, :]
    writes @a[grouped(e, g of 2), :]
  tile.tasks @r () in () on aiv
    kernel "swiglu"
    reads @a[:, :]
    writes @b[:, :]
  queue.event @p_done (3, 2) count 1 line 0
  queue.event @q_done () count 6 line 6
  queue.event @q_by_expert (3) count [2, 2, 2]
  queue.signal @p (p, e) to @p_done (e, rank) on (rank + p) mod 2
  queue.signal @q (e, g) to @q_done ()
  queue.signal @q (e, g) to @q_by_expert (e)
  queue.wait @q (e, g) for @p_done (e, g)
  queue.wait @r () for @q_done ()
  queue.order aic {
    [@q[0, 2]],
    [],
    [@q[1, 3, 5]],
    [],
    [],
    [],
    [@q[4]],
    [] times 17
  }
  queue.order aiv {
    [@p[0], @r[0], @p[3, 5]],
    [@p[1, 2, 4]],
    [] times 46
  }
}

// CHECK:      queue.program @layer ranks 2 machine "ascend-a3" counters at 4096 {
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @b window : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @w input : !tile.buffer<3x48x48xbf16>
// CHECK-NEXT:   tile.tasks @p (p, e) in (2, 3) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @a[grouped(e, rank of 2), :]
// CHECK-NEXT:     writes @b on p [grouped(e, rank of 2), :]
// CHECK-NEXT:   tile.tasks @q (e, g) in (3, 2) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 32 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @b[grouped(e, g of 2), :], @w[e, :, :]
// CHECK-NEXT:     writes @a[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.tasks @r () in () on aiv
// CHECK-NEXT:     kernel "swiglu"
// CHECK-NEXT:     reads @a[:, :]
// CHECK-NEXT:     writes @b[:, :]
// CHECK-NEXT:   queue.event @p_done (3, 2) count 1 line 0
// CHECK-NEXT:   queue.event @q_done () count 6 line 6
// CHECK-NEXT:   queue.event @q_by_expert (3) count [2, 2, 2]
// CHECK-NEXT:   queue.signal @p (p, e) to @p_done (e, rank) on (rank + p) mod 2
// CHECK-NEXT:   queue.signal @q (e, g) to @q_done ()
// CHECK-NEXT:   queue.signal @q (e, g) to @q_by_expert (e)
// CHECK-NEXT:   queue.wait @q (e, g) for @p_done (e, g)
// CHECK-NEXT:   queue.wait @r () for @q_done ()
// CHECK-NEXT:   queue.order aic {
// CHECK-NEXT:     [@q[0, 2]],
// CHECK-NEXT:     [],
// CHECK-NEXT:     [@q[1, 3, 5]],
// CHECK-NEXT:     [] times 3,
// CHECK-NEXT:     [@q[4]],
// CHECK-NEXT:     [] times 17
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.order aiv {
// CHECK-NEXT:     [@p[0], @r[0], @p[3, 5]],
// CHECK-NEXT:     [@p[1, 2, 4]],
// CHECK-NEXT:     [] times 46
// CHECK-NEXT:   }
// CHECK-NEXT: }

// GENERIC:      "queue.program"() <{sym_name = "layer", ranks = 2 : i64, machine = "ascend-a3", counters = 4096 : i64}> ({
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "route", space = #tile.memory_space<workspace>, type = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "a", space = #tile.memory_space<workspace>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "b", space = #tile.memory_space<window>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "w", space = #tile.memory_space<input>, type = !tile.buffer<3x48x48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "p", dims = ["p", "e"], grid = array<i64: 2, 3>, core = "aiv", kernel = "copy_rows", options = {}, route = @route, reads = [#tile.access<@a[grouped(d1, rank of 2), :]>], writes = [#tile.access<@b on d0 [grouped(d1, rank of 2), :]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "q", dims = ["e", "g"], grid = array<i64: 3, 2>, core = "aic", kernel = "grouped_matmul", options = {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 32 : i64, transpose_rhs = 0 : i64}, route = @route, reads = [#tile.access<@b[grouped(d0, d1 of 2), :]>, #tile.access<@w[d0, :, :]>], writes = [#tile.access<@a[grouped(d0, d1 of 2), :]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "r", dims = [], grid = array<i64>, core = "aiv", kernel = "swiglu", options = {}, reads = [#tile.access<@a[:, :]>], writes = [#tile.access<@b[:, :]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "queue.event"() <{sym_name = "p_done", events = array<i64: 3, 2>, counts = array<i32: 1>, line = 0 : i64}> : () -> ()
// GENERIC-NEXT:   "queue.event"() <{sym_name = "q_done", events = array<i64>, counts = array<i32: 6>, line = 6 : i64}> : () -> ()
// GENERIC-NEXT:   "queue.event"() <{sym_name = "q_by_expert", events = array<i64: 3>, counts = array<i32: 2, 2, 2>}> : () -> ()
// GENERIC-NEXT:   "queue.signal"() <{family = @p, dims = ["p", "e"], event = @p_done, index = [#tile.index<d1>, #tile.index<rank>], peer = #tile.index<(rank + d0) mod 2>}> : () -> ()
// GENERIC-NEXT:   "queue.signal"() <{family = @q, dims = ["e", "g"], event = @q_done, index = []}> : () -> ()
// GENERIC-NEXT:   "queue.signal"() <{family = @q, dims = ["e", "g"], event = @q_by_expert, index = [#tile.index<d0>]}> : () -> ()
// GENERIC-NEXT:   "queue.wait"() <{family = @q, dims = ["e", "g"], event = @p_done, index = [#tile.index<d0>, #tile.index<d1>]}> : () -> ()
// GENERIC-NEXT:   "queue.wait"() <{family = @r, dims = [], event = @q_done, index = []}> : () -> ()
// GENERIC-NEXT:   "queue.order"() <{core = "aic", families = [@q], first = array<i32: 0, 2, 2, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6>, slots = array<i32: 0, 2, 1, 3, 5, 4>}> : () -> ()
// GENERIC-NEXT:   "queue.order"() <{core = "aiv", families = [@p, @r], first = array<i32: 0, 4, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7>, slots = array<i32: 0, 16777216, 3, 5, 1, 2, 4>}> : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// A program that is being made: nothing allocated, no orders.
queue.program @layer ranks 1 machine "ascend-a2" {
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  queue.event @ready (5) count [1, 2, 3, 4, 5]
}

// CHECK:      queue.program @layer ranks 1 machine "ascend-a2" {
// CHECK-NEXT:   tile.buffer @a workspace : !tile.buffer<5x6xi32>
// CHECK-NEXT:   queue.event @ready (5) count [1, 2, 3, 4, 5]
// CHECK-NEXT: }

// GENERIC:      "queue.program"() <{sym_name = "layer", ranks = 1 : i64, machine = "ascend-a2"}> ({
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "a", space = #tile.memory_space<workspace>, type = !tile.buffer<5x6xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "queue.event"() <{sym_name = "ready", events = array<i64: 5>, counts = array<i32: 1, 2, 3, 4, 5>}> : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// Tasks one by one.
queue.program @layer ranks 2 machine "ascend-a3" {
  queue.core aic 3 {
    queue.task @q (0, 1)
      waits @p_done[0, 1] count 8, @r_done[] count 1
      reads @b[grouped(0, 1 of 2), :]
      writes @a[grouped(0, 1 of 2), :]
      signals @q_done[], @q_by_expert[0]
    queue.task @idle ()
  }
  queue.core aiv 47 {
    queue.task @p (1, 0)
      writes @b on (rank + 1) mod 2 [grouped(0, rank of 2), :]
      signals @p_done[0, rank] on (rank + 1) mod 2
  }
  queue.core aic 4 {
  }
}

// CHECK:      queue.program @layer ranks 2 machine "ascend-a3" {
// CHECK-NEXT:   queue.core aic 3 {
// CHECK-NEXT:     queue.task @q (0, 1)
// CHECK-NEXT:       waits @p_done[0, 1] count 8, @r_done[] count 1
// CHECK-NEXT:       reads @b[grouped(0, 1 of 2), :]
// CHECK-NEXT:       writes @a[grouped(0, 1 of 2), :]
// CHECK-NEXT:       signals @q_done[], @q_by_expert[0]
// CHECK-NEXT:     queue.task @idle ()
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.core aiv 47 {
// CHECK-NEXT:     queue.task @p (1, 0)
// CHECK-NEXT:       writes @b on (rank + 1) mod 2 [grouped(0, rank of 2), :]
// CHECK-NEXT:       signals @p_done[0, rank] on (rank + 1) mod 2
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.core aic 4 {
// CHECK-NEXT:   ^bb0:
// CHECK-NEXT:   }
// CHECK-NEXT: }

// GENERIC:      "queue.program"() <{sym_name = "layer", ranks = 2 : i64, machine = "ascend-a3"}> ({
// GENERIC-NEXT:   "queue.core"() <{core = "aic", number = 3 : i64}> ({
// GENERIC-NEXT:     "queue.task"() <{family = @q, point = array<i64: 0, 1>, waits = [#queue.event_use<@p_done[0, 1] count 8>, #queue.event_use<@r_done[] count 1>], reads = [#tile.access<@b[grouped(0, 1 of 2), :]>], writes = [#tile.access<@a[grouped(0, 1 of 2), :]>], signals = [#queue.event_use<@q_done[]>, #queue.event_use<@q_by_expert[0]>]}> : () -> ()
// GENERIC-NEXT:     "queue.task"() <{family = @idle, point = array<i64>, waits = [], reads = [], writes = [], signals = []}> : () -> ()
// GENERIC-NEXT:   }) : () -> ()
// GENERIC-NEXT:   "queue.core"() <{core = "aiv", number = 47 : i64}> ({
// GENERIC-NEXT:     "queue.task"() <{family = @p, point = array<i64: 1, 0>, waits = [], reads = [], writes = [#tile.access<@b on (rank + 1) mod 2 [grouped(0, rank of 2), :]>], signals = [#queue.event_use<@p_done[0, rank] on (rank + 1) mod 2>]}> : () -> ()
// GENERIC-NEXT:   }) : () -> ()
// GENERIC-NEXT:   "queue.core"() <{core = "aic", number = 4 : i64}> ({
// GENERIC-NEXT:   ^bb0:
// GENERIC-NEXT:   }) : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// Event uses as attributes.
"test.op"() {uses = [#queue.event_use<@e[]>, #queue.event_use<@e[0, rank] count 3>, #queue.event_use<@e[1] on (rank + 1) mod 2>]} : () -> ()

// CHECK:      "test.op"() {uses = [#queue.event_use<@e[]>, #queue.event_use<@e[0, rank] count 3>, #queue.event_use<@e[1] on (rank + 1) mod 2>]} : () -> ()

// GENERIC:      "test.op"() {uses = [#queue.event_use<@e[]>, #queue.event_use<@e[0, rank] count 3>, #queue.event_use<@e[1] on (rank + 1) mod 2>]} : () -> ()

// -----

// Puts that are credited where they have no rows, and events with two counters.
queue.program @credited ranks 2 machine "ascend-a3" {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window copies 2 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e, c) in (2, 3, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e, chunk c of 2 by 16), :]
    writes @recv on (rank + p) mod 2 [grouped(e, rank of 2, chunk c of 2 by 16), :]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, s of 2), :]
    writes @back on s [sent(rank * 3 + e), :]
  queue.event @put_done (3, 2) count 2 copies 2 line 0
  queue.event @return_done () count 6 copies 2
  queue.signal @put (p, e, c) to @put_done (e, rank) on (rank + p) mod 2 credited by @build_route
  queue.signal @return (e, s) to @return_done () on s credited by @build_route
}

// CHECK:      queue.program @credited ranks 2 machine "ascend-a3" {
// CHECK:        queue.event @put_done (3, 2) count 2 copies 2 line 0
// CHECK-NEXT:   queue.event @return_done () count 6 copies 2
// CHECK-NEXT:   queue.signal @put (p, e, c) to @put_done (e, rank) on (rank + p) mod 2 credited by @build_route
// CHECK-NEXT:   queue.signal @return (e, s) to @return_done () on s credited by @build_route
// CHECK-NEXT: }

// GENERIC:      "queue.event"() <{sym_name = "put_done", events = array<i64: 3, 2>, counts = array<i32: 2>, line = 0 : i64, copies = 2 : i64}> : () -> ()
// GENERIC-NEXT: "queue.event"() <{sym_name = "return_done", events = array<i64>, counts = array<i32: 6>, copies = 2 : i64}> : () -> ()
// GENERIC-NEXT: "queue.signal"() <{family = @put, dims = ["p", "e", "c"], event = @put_done, index = [#tile.index<d1>, #tile.index<rank>], peer = #tile.index<(rank + d0) mod 2>, credit = @build_route}> : () -> ()
// GENERIC-NEXT: "queue.signal"() <{family = @return, dims = ["e", "s"], event = @return_done, index = [], peer = #tile.index<d1>, credit = @build_route}> : () -> ()

// -----

// What the caller gives and gets comes last before the body.
queue.program @layer_backward forward @layer ranks 2 machine "ascend-a3" counters at 4096 budget 50 (@x: argument 0) -> (@out, @status: status) {
  tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
}

// CHECK:      queue.program @layer_backward forward @layer ranks 2 machine "ascend-a3" counters at 4096 budget 50 (@x: argument 0) -> (@out, @status: status) {

// GENERIC:      "queue.program"() <{sym_name = "layer_backward", ranks = 2 : i64, machine = "ascend-a3", forward = @layer, counters = 4096 : i64, budget = 50 : i64, arguments = [#tile.parameter<@x: argument 0>], results = [#tile.parameter<@out>, #tile.parameter<@status: status>]}> ({
