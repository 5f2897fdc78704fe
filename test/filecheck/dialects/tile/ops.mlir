// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

// Buffers of each space, with each kind of rows, with copies and with offsets.
tile.program @buffers ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w13 input : !tile.buffer<3x48x32xf16>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xf32>
  tile.buffer @order workspace at 1024 : !tile.buffer<sent 14 rows, i32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @counts window copies 2 at 64 : !tile.buffer<2x12xi32>
}

// CHECK:      tile.program @buffers ranks 2 {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @w13 input : !tile.buffer<3x48x32xf16>
// CHECK-NEXT:   tile.buffer @out output : !tile.buffer<tokens 7 rows, 48xf32>
// CHECK-NEXT:   tile.buffer @order workspace at 1024 : !tile.buffer<sent 14 rows, i32>
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @counts window copies 2 at 64 : !tile.buffer<2x12xi32>
// CHECK-NEXT: }

// GENERIC:      "tile.program"() <{sym_name = "buffers", ranks = 2 : i64}> ({
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "x", space = #tile.memory_space<input>, type = !tile.buffer<tokens 7 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "w13", space = #tile.memory_space<input>, type = !tile.buffer<3x48x32xf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "out", space = #tile.memory_space<output>, type = !tile.buffer<tokens 7 rows, 48xf32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "order", space = #tile.memory_space<workspace>, type = !tile.buffer<sent 14 rows, i32>, copies = 1 : i64, offset = 1024 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "route", space = #tile.memory_space<workspace>, type = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "recv", space = #tile.memory_space<window>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64, offset = 0 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "counts", space = #tile.memory_space<window>, type = !tile.buffer<2x12xi32>, copies = 2 : i64, offset = 64 : i64}> : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// Tasks with each kind of selector, remote and scattered writes, options, scalars.
tile.program @tasks ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @w13 input : !tile.buffer<3x48x32xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @chunk_counts workspace : !tile.buffer<2x6xi32>
  tile.buffer @counts window : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @order workspace : !tile.buffer<sent 14 rows, i32>
  tile.buffer @position workspace : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 32xbf16>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @back window : !tile.buffer<sent 14 rows, 32xbf16>
  tile.tasks @place (b) in (2) on aiv
    kernel "place_tokens"
    reads @ids[tokens(b of 2), :], @chunk_counts[:, :]
    writes scatter @order[:], @position[tokens(b of 2), :]
    scalars (b)
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @dispatch (p, e, c) in (2, 3, 4) on aiv
    kernel "copy_rows" using @route
    reads @back[sent(p * 3 + e, chunk c of 4 by 16), :]
    writes @recv on p [grouped(e, rank of 2, chunk c of 4 by 16), :]
  tile.tasks @matmul (e, g, n) in (3, 2, 3) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 32 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 12)]
    writes @h[grouped(e, g of 2), block(n by 12)]
  tile.tasks @return (e, s) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @h[grouped(e, s of 2), :]
    writes @back on (rank + s) mod 2 [sent(rank * 3 + e), :]
}

// CHECK:      tile.program @tasks ranks 2 {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<tokens 7 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
// CHECK-NEXT:   tile.buffer @w13 input : !tile.buffer<3x48x32xbf16>
// CHECK-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// CHECK-NEXT:   tile.buffer @chunk_counts workspace : !tile.buffer<2x6xi32>
// CHECK-NEXT:   tile.buffer @counts window : !tile.buffer<2x12xi32>
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @order workspace : !tile.buffer<sent 14 rows, i32>
// CHECK-NEXT:   tile.buffer @position workspace : !tile.buffer<tokens 7 rows, 2xi32>
// CHECK-NEXT:   tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 32xbf16>
// CHECK-NEXT:   tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @back window : !tile.buffer<sent 14 rows, 32xbf16>
// CHECK-NEXT:   tile.tasks @place (b) in (2) on aiv
// CHECK-NEXT:     kernel "place_tokens"
// CHECK-NEXT:     reads @ids[tokens(b of 2), :], @chunk_counts[:, :]
// CHECK-NEXT:     writes scatter @order[:], @position[tokens(b of 2), :]
// CHECK-NEXT:     scalars (b)
// CHECK-NEXT:   tile.tasks @build_route () in () on aiv
// CHECK-NEXT:     kernel "build_route"
// CHECK-NEXT:     reads @counts[:, :]
// CHECK-NEXT:     writes @route[:], @status[:]
// CHECK-NEXT:     scalars (rank, 20)
// CHECK-NEXT:   tile.tasks @dispatch (p, e, c) in (2, 3, 4) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @back[sent(p * 3 + e, chunk c of 4 by 16), :]
// CHECK-NEXT:     writes @recv on p [grouped(e, rank of 2, chunk c of 4 by 16), :]
// CHECK-NEXT:   tile.tasks @matmul (e, g, n) in (3, 2, 3) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 32 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @recv[grouped(e, g of 2), :], @w13[e, :, block(n by 12)]
// CHECK-NEXT:     writes @h[grouped(e, g of 2), block(n by 12)]
// CHECK-NEXT:   tile.tasks @return (e, s) in (3, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @h[grouped(e, s of 2), :]
// CHECK-NEXT:     writes @back on (rank + s) mod 2 [sent(rank * 3 + e), :]
// CHECK-NEXT: }

// GENERIC:      "tile.program"() <{sym_name = "tasks", ranks = 2 : i64}> ({
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "x", space = #tile.memory_space<input>, type = !tile.buffer<tokens 7 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "ids", space = #tile.memory_space<input>, type = !tile.buffer<tokens 7 rows, 2xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "w13", space = #tile.memory_space<input>, type = !tile.buffer<3x48x32xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "status", space = #tile.memory_space<output>, type = !tile.buffer<16xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "chunk_counts", space = #tile.memory_space<workspace>, type = !tile.buffer<2x6xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "counts", space = #tile.memory_space<window>, type = !tile.buffer<2x12xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "route", space = #tile.memory_space<workspace>, type = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "order", space = #tile.memory_space<workspace>, type = !tile.buffer<sent 14 rows, i32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "position", space = #tile.memory_space<workspace>, type = !tile.buffer<tokens 7 rows, 2xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "h", space = #tile.memory_space<workspace>, type = !tile.buffer<grouped 20 rows, 32xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "recv", space = #tile.memory_space<window>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "back", space = #tile.memory_space<window>, type = !tile.buffer<sent 14 rows, 32xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "place", dims = ["b"], grid = array<i64: 2>, core = "aiv", kernel = "place_tokens", options = {}, reads = [#tile.access<@ids[tokens(d0 of 2), :]>, #tile.access<@chunk_counts[:, :]>], writes = [#tile.access<scatter @order[:]>, #tile.access<@position[tokens(d0 of 2), :]>], scalars = [#tile.index<d0>]}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "build_route", dims = [], grid = array<i64>, core = "aiv", kernel = "build_route", options = {}, reads = [#tile.access<@counts[:, :]>], writes = [#tile.access<@route[:]>, #tile.access<@status[:]>], scalars = [#tile.index<rank>, #tile.index<20>]}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "dispatch", dims = ["p", "e", "c"], grid = array<i64: 2, 3, 4>, core = "aiv", kernel = "copy_rows", options = {}, route = @route, reads = [#tile.access<@back[sent(d0 * 3 + d1, chunk d2 of 4 by 16), :]>], writes = [#tile.access<@recv on d0 [grouped(d1, rank of 2, chunk d2 of 4 by 16), :]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "matmul", dims = ["e", "g", "n"], grid = array<i64: 3, 2, 3>, core = "aic", kernel = "grouped_matmul", options = {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 32 : i64, transpose_rhs = 0 : i64}, route = @route, reads = [#tile.access<@recv[grouped(d0, d1 of 2), :]>, #tile.access<@w13[d0, :, block(d2 by 12)]>], writes = [#tile.access<@h[grouped(d0, d1 of 2), block(d2 by 12)]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "return", dims = ["e", "s"], grid = array<i64: 3, 2>, core = "aiv", kernel = "copy_rows", options = {}, route = @route, reads = [#tile.access<@h[grouped(d0, d1 of 2), :]>], writes = [#tile.access<@back on (rank + d1) mod 2 [sent(rank * 3 + d0), :]>], scalars = []}> : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// Dependences: one event and many, equal thresholds and different ones, on a peer's event.
tile.program @dependences ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @c workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @p (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, rank of 2), :]
    writes @b[grouped(e, rank of 2), :]
  tile.tasks @q (t) in (6) on aiv
    kernel "copy_rows" using @route
    reads @b[grouped(t mod 3, t floordiv 3 of 2), :]
    writes @c[grouped(t mod 3, t floordiv 3 of 2), :]
  tile.dependence @p (p, e) -> @q (t) on @b
    events (3, 2) from (e, rank) on (rank + p) mod 2 to (t mod 3, t floordiv 3) count 1
  tile.dependence @p (p, e) -> @q (t) on @a, @b
    events (2) from (p) to (t floordiv 3) count [3, 2]
  tile.dependence @p (p, e) -> @q (t) on @b
    events () from () to () count 6
}

// CHECK:      tile.program @dependences ranks 2 {
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @b workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @c workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.tasks @p (p, e) in (2, 3) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @a[grouped(e, rank of 2), :]
// CHECK-NEXT:     writes @b[grouped(e, rank of 2), :]
// CHECK-NEXT:   tile.tasks @q (t) in (6) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @b[grouped(t mod 3, t floordiv 3 of 2), :]
// CHECK-NEXT:     writes @c[grouped(t mod 3, t floordiv 3 of 2), :]
// CHECK-NEXT:   tile.dependence @p (p, e) -> @q (t) on @b
// CHECK-NEXT:     events (3, 2) from (e, rank) on (rank + p) mod 2 to (t mod 3, t floordiv 3) count 1
// CHECK-NEXT:   tile.dependence @p (p, e) -> @q (t) on @a, @b
// CHECK-NEXT:     events (2) from (p) to (t floordiv 3) count [3, 2]
// CHECK-NEXT:   tile.dependence @p (p, e) -> @q (t) on @b
// CHECK-NEXT:     events () from () to () count 6
// CHECK-NEXT: }

// GENERIC:      "tile.program"() <{sym_name = "dependences", ranks = 2 : i64}> ({
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "route", space = #tile.memory_space<workspace>, type = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "a", space = #tile.memory_space<workspace>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "b", space = #tile.memory_space<workspace>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "c", space = #tile.memory_space<workspace>, type = !tile.buffer<grouped 20 rows, 48xbf16>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "p", dims = ["p", "e"], grid = array<i64: 2, 3>, core = "aiv", kernel = "copy_rows", options = {}, route = @route, reads = [#tile.access<@a[grouped(d1, rank of 2), :]>], writes = [#tile.access<@b[grouped(d1, rank of 2), :]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "q", dims = ["t"], grid = array<i64: 6>, core = "aiv", kernel = "copy_rows", options = {}, route = @route, reads = [#tile.access<@b[grouped(d0 mod 3, d0 floordiv 3 of 2), :]>], writes = [#tile.access<@c[grouped(d0 mod 3, d0 floordiv 3 of 2), :]>], scalars = []}> : () -> ()
// GENERIC-NEXT:   "tile.dependence"() <{producer = @p, consumer = @q, producer_dims = ["p", "e"], consumer_dims = ["t"], buffers = [@b], events = array<i64: 3, 2>, source = [#tile.index<d1>, #tile.index<rank>], target = [#tile.index<d0 mod 3>, #tile.index<d0 floordiv 3>], counts = array<i32: 1>, peer = #tile.index<(rank + d0) mod 2>}> : () -> ()
// GENERIC-NEXT:   "tile.dependence"() <{producer = @p, consumer = @q, producer_dims = ["p", "e"], consumer_dims = ["t"], buffers = [@a, @b], events = array<i64: 2>, source = [#tile.index<d0>], target = [#tile.index<d0 floordiv 3>], counts = array<i32: 3, 2>}> : () -> ()
// GENERIC-NEXT:   "tile.dependence"() <{producer = @p, consumer = @q, producer_dims = ["p", "e"], consumer_dims = ["t"], buffers = [@b], events = array<i64>, source = [], target = [], counts = array<i32: 6>}> : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// A program of nothing, and names that are words of the syntax.
tile.program @empty ranks 1 {
}
tile.program @words ranks 1 {
  tile.buffer @sent workspace : !tile.buffer<5x5xi32>
  tile.buffer @grouped workspace : !tile.buffer<5x5xi32>
  tile.tasks @tokens (block) in (5) on aiv
    kernel "count_tokens"
    reads @sent[block, :]
    writes @grouped[:, block]
}

// CHECK:      tile.program @empty ranks 1 {
// CHECK-NEXT: ^bb0:
// CHECK-NEXT: }
// CHECK-NEXT: tile.program @words ranks 1 {
// CHECK-NEXT:   tile.buffer @sent workspace : !tile.buffer<5x5xi32>
// CHECK-NEXT:   tile.buffer @grouped workspace : !tile.buffer<5x5xi32>
// CHECK-NEXT:   tile.tasks @tokens (block) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @sent[block, :]
// CHECK-NEXT:     writes @grouped[:, block]
// CHECK-NEXT: }

// GENERIC:      "tile.program"() <{sym_name = "empty", ranks = 1 : i64}> ({
// GENERIC-NEXT: ^bb0:
// GENERIC-NEXT: }) : () -> ()
// GENERIC-NEXT: "tile.program"() <{sym_name = "words", ranks = 1 : i64}> ({
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "sent", space = #tile.memory_space<workspace>, type = !tile.buffer<5x5xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.buffer"() <{sym_name = "grouped", space = #tile.memory_space<workspace>, type = !tile.buffer<5x5xi32>, copies = 1 : i64}> : () -> ()
// GENERIC-NEXT:   "tile.tasks"() <{sym_name = "tokens", dims = ["block"], grid = array<i64: 5>, core = "aiv", kernel = "count_tokens", options = {}, reads = [#tile.access<@sent[d0, :]>], writes = [#tile.access<@grouped[:, d0]>], scalars = []}> : () -> ()
// GENERIC-NEXT: }) : () -> ()

// -----

// Index expressions: parentheses only where they are needed.
"test.op"() {indices = [
  #tile.index<d0>, #tile.index<rank>, #tile.index<-3>,
  #tile.index<d0 + d1 * 4>, #tile.index<(d0 + d1) * 4>, #tile.index<d0 + d1 + rank>, #tile.index<d0 + (d1 + rank)>,
  #tile.index<d0 mod 4 floordiv 2>, #tile.index<(rank + d0) mod 4>, #tile.index<d1 ceildiv 3 + -1>,
  #tile.index<((d0))>, #tile.index<d0 * 2 + d31>]} : () -> ()

// CHECK:      "test.op"() {indices = [#tile.index<d0>, #tile.index<rank>, #tile.index<-3>, #tile.index<d0 + d1 * 4>, #tile.index<d0 * 4 + d1 * 4>, #tile.index<d0 + d1 + rank>, #tile.index<d0 + (d1 + rank)>, #tile.index<d0 mod 4 floordiv 2>, #tile.index<(rank + d0) mod 4>, #tile.index<d1 ceildiv 3 + -1>, #tile.index<d0>, #tile.index<d0 * 2 + d31>]} : () -> ()

// GENERIC:      "test.op"() {indices = [#tile.index<d0>, #tile.index<rank>, #tile.index<-3>, #tile.index<d0 + d1 * 4>, #tile.index<d0 * 4 + d1 * 4>, #tile.index<d0 + d1 + rank>, #tile.index<d0 + (d1 + rank)>, #tile.index<d0 mod 4 floordiv 2>, #tile.index<(rank + d0) mod 4>, #tile.index<d1 ceildiv 3 + -1>, #tile.index<d0>, #tile.index<d0 * 2 + d31>]} : () -> ()

// -----

// Regions as attributes: coordinates are d0, d1, ...
"test.op"() {regions = [
  #tile.access<@b[:]>, #tile.access<@b[d0, block(d1 by 256), :]>, #tile.access<@b[]>,
  #tile.access<@b[grouped(d0, d1 of 2), :]>, #tile.access<@b[grouped(d0, rank of 2, chunk d2 of 3 by 16), :]>,
  #tile.access<@b[sent(d0 * 2 + d1)]>, #tile.access<@b[sent(d0, chunk 1 of 2 by 1)]>, #tile.access<@b[tokens(d0 of 5), :]>,
  #tile.access<@b on (rank + d0) mod 2[tokens(0 of 1)]>, #tile.access<scatter @b[:]>,
  #tile.access<@b[grouped(d0, 0 of 1, chunk 0 of 1 by 1), :]>]} : () -> ()

// CHECK:      "test.op"() {regions = [#tile.access<@b[:]>, #tile.access<@b[d0, block(d1 by 256), :]>, #tile.access<@b[]>, #tile.access<@b[grouped(d0, d1 of 2), :]>, #tile.access<@b[grouped(d0, rank of 2, chunk d2 of 3 by 16), :]>, #tile.access<@b[sent(d0 * 2 + d1)]>, #tile.access<@b[sent(d0, chunk 1 of 2 by 1)]>, #tile.access<@b[tokens(d0 of 5), :]>, #tile.access<@b on (rank + d0) mod 2 [tokens(0 of 1)]>, #tile.access<scatter @b[:]>, #tile.access<@b[grouped(d0, 0 of 1), :]>]} : () -> ()

// GENERIC:      "test.op"() {regions = [#tile.access<@b[:]>, #tile.access<@b[d0, block(d1 by 256), :]>, #tile.access<@b[]>, #tile.access<@b[grouped(d0, d1 of 2), :]>, #tile.access<@b[grouped(d0, rank of 2, chunk d2 of 3 by 16), :]>, #tile.access<@b[sent(d0 * 2 + d1)]>, #tile.access<@b[sent(d0, chunk 1 of 2 by 1)]>, #tile.access<@b[tokens(d0 of 5), :]>, #tile.access<@b on (rank + d0) mod 2 [tokens(0 of 1)]>, #tile.access<scatter @b[:]>, #tile.access<@b[grouped(d0, 0 of 1), :]>]} : () -> ()

// -----

// Puts that are credited where they have no rows.
tile.program @credited ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @out output : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @use (e, g) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @recv[grouped(e, g of 2), :]
    writes @out[grouped(e, g of 2), :]
  tile.dependence @put (p, e) -> @use (e, g) on @recv
    events (3, 2) from (e, rank) on p to (e, g) count 1
    credited by @build_route
}

// CHECK:      tile.program @credited ranks 2 {
// CHECK:        tile.dependence @put (p, e) -> @use (e, g) on @recv
// CHECK-NEXT:     events (3, 2) from (e, rank) on p to (e, g) count 1
// CHECK-NEXT:     credited by @build_route
// CHECK-NEXT: }

// GENERIC:      "tile.dependence"() <{producer = @put, consumer = @use, producer_dims = ["p", "e"], consumer_dims = ["e", "g"], buffers = [@recv], events = array<i64: 3, 2>, source = [#tile.index<d1>, #tile.index<rank>], target = [#tile.index<d0>, #tile.index<d1>], counts = array<i32: 1>, peer = #tile.index<d0>, credit = @build_route}> : () -> ()

// -----

// What the caller gives and gets, in order: with and without roles, and a buffer that is both.
tile.program @layer_backward forward @layer ranks 2 (@dout: gradient of result 0, @acc: accumulator of argument 3, @w) -> (@acc: gradient of argument 3, @dx: gradient of argument 0, @status: status) {
  tile.buffer @dout input : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @w input : !tile.buffer<3x48x48xbf16>
  tile.buffer @acc inout : !tile.buffer<3x48x48xf32>
  tile.buffer @dx output : !tile.buffer<tokens 7 rows, 48xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
}

// CHECK:      tile.program @layer_backward forward @layer ranks 2 (@dout: gradient of result 0, @acc: accumulator of argument 3, @w) -> (@acc: gradient of argument 3, @dx: gradient of argument 0, @status: status) {
// CHECK-NEXT:   tile.buffer @dout input : !tile.buffer<tokens 7 rows, 48xbf16>

// GENERIC:      "tile.program"() <{sym_name = "layer_backward", ranks = 2 : i64, arguments = [#tile.parameter<@dout: gradient of result 0>, #tile.parameter<@acc: accumulator of argument 3>, #tile.parameter<@w>], results = [#tile.parameter<@acc: gradient of argument 3>, #tile.parameter<@dx: gradient of argument 0>, #tile.parameter<@status: status>], forward = @layer}> ({

// -----

// Nothing given, nothing returned.
tile.program @nothing ranks 1 () -> () {
}

// CHECK:      tile.program @nothing ranks 1 () -> () {

// GENERIC:      "tile.program"() <{sym_name = "nothing", ranks = 1 : i64, arguments = [], results = []}> ({
