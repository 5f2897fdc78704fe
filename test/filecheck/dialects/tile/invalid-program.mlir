// RUN: HPMOE_INVALID

// Nobody to run it.
// CHECK: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: a program runs on at least one rank, found 0
tile.program @p ranks 0 {
}

// -----

tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5xi32>
  // CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:3: error: tile.buffer: the symbol @b is defined twice, first by a tile.buffer at invalid-program.mlir:[[# @LINE - 1]]:3; expected different names
  tile.buffer @b workspace : !tile.buffer<5xi32>
}

// -----

// Row ranges from something that is no route, and from nothing.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t uses @b, which is no buffer of a route
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t () in () on aiv
    kernel "count_tokens" using @b
    reads @b[0, :]
    writes @b[1, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t uses @route, which is no buffer of a route
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t () in () on aiv
    kernel "count_tokens" using @route
    reads @b[0, :]
    writes @b[1, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[grouped(e, 0 of 1), :]: rows of the route need `using` a route
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 6xbf16>
  tile.tasks @t (e) in (3) on aiv
    kernel "swiglu"
    reads @a[grouped(e, 0 of 1), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @c[0, :]: no such buffer, known: @a, @b
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t () in () on aiv
    kernel "count_tokens"
    reads @c[0, :]
    writes @b[1, :]
}

// -----

// Only symmetric memory has a place on a peer.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @b on p [1, :]: another rank's memory is reached through a window, @b is workspace
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (p) in (2) on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @b on p [1, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @route[0]: a route is read and written as a whole, by [:]
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @t () in () on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @route[0]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @b[:]: 1 selectors for a buffer of 2 dimensions
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t () in () on aiv
    kernel "count_tokens"
    reads @b[:]
    writes @b[1, :]
}

// -----

// Rows of another kind than the buffer's.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[sent(e), :]: dimension 0 of !tile.buffer<grouped 20 rows, 6xbf16> does not have rows of that kind
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 6xbf16>
  tile.tasks @t (e) in (3) on aiv
    kernel "swiglu" using @route
    reads @a[sent(e), :]
    writes @a[:, :]
}

// -----

// Rows in a buffer that has none.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[tokens(0 of 1), :]: dimension 0 of !tile.buffer<20x6xbf16> does not have rows of that kind
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<20x6xbf16>
  tile.tasks @t () in () on aiv
    kernel "swiglu"
    reads @a[tokens(0 of 1), :]
    writes @a[:, :]
}

// -----

// Rows in another dimension than the first.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[:, tokens(0 of 1)]: dimension 1 of !tile.buffer<tokens 20 rows, 6xbf16> does not have rows of that kind
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<tokens 20 rows, 6xbf16>
  tile.tasks @t () in () on aiv
    kernel "swiglu"
    reads @a[:, tokens(0 of 1)]
    writes @a[:, :]
}

// -----

// How many rows there are is known at run time only.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[block(0 by 10), :]: dimension 0 has tokens rows, select them by tokens(...) or :
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<tokens 20 rows, 6xbf16>
  tile.tasks @t () in () on aiv
    kernel "swiglu"
    reads @a[block(0 by 10), :]
    writes @a[:, :]
}

// -----

// A group of sources has a rank at least.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[grouped(0, g of 3), :]: 3 source groups of 2 ranks
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 6xbf16>
  tile.tasks @t (g) in (3) on aiv
    kernel "swiglu" using @route
    reads @a[grouped(0, g of 3), :]
    writes @a[:, :]
}

// -----

// Indices that leave what they count: a static dimension, blocks, experts, groups, chunks, tokens, ranks.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @b[b + 1, :]: b + 1 is 1 to 5, expected 0 to 4
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b + 1, :]
    writes @b[b, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @b[0, block(b by 2)]: b is 0 to 3, expected 0 to 2
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (4) on aiv
    kernel "count_tokens"
    reads @b[0, block(b by 2)]
    writes @b[1, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[grouped(e, 0 of 1), :]: e is 0 to 5, expected 0 to 2
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 6xbf16>
  tile.tasks @t (e) in (6) on aiv
    kernel "swiglu" using @route
    reads @a[grouped(e, 0 of 1), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[grouped(e, rank of 1), :]: rank is 0 to 1, expected 0 to 0
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 6xbf16>
  tile.tasks @t (e) in (3) on aiv
    kernel "swiglu" using @route
    reads @a[grouped(e, rank of 1), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[grouped(e, rank of 2, chunk e of 2 by 1), :]: e is 0 to 2, expected 0 to 1
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 6xbf16>
  tile.tasks @t (e) in (3) on aiv
    kernel "swiglu" using @route
    reads @a[grouped(e, rank of 2, chunk e of 2 by 1), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[sent(p * 3 + e), :]: p * 3 + e is 0 to 6, expected 0 to 5
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<sent 14 rows, 6xbf16>
  tile.tasks @t (p, e) in (2, 4) on aiv
    kernel "swiglu" using @route
    reads @a[sent(p * 3 + e), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[sent(0, chunk p + 2 of 3 by 1), :]: p + 2 is 2 to 3, expected 0 to 2
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<sent 14 rows, 6xbf16>
  tile.tasks @t (p) in (2) on aiv
    kernel "swiglu" using @route
    reads @a[sent(0, chunk p + 2 of 3 by 1), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @a[tokens(-1 of 3), :]: -1 is -1 to -1, expected 0 to 2
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<tokens 20 rows, 6xbf16>
  tile.tasks @t () in () on aiv
    kernel "swiglu"
    reads @a[tokens(-1 of 3), :]
    writes @a[:, :]
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t: @b on p + rank [1, :]: p + rank is 0 to 2, expected 0 to 1
tile.program @p ranks 2 {
  tile.buffer @b window : !tile.buffer<5x6xi32>
  tile.tasks @t (p) in (2) on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @b on p + rank [1, :]
}

// -----

// Dependences of families and buffers that do not exist.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @s -> @t: no family of tasks @s
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @s () -> @t (b) on @b
    events () from () to () count 1
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t -> @u: no family of tasks @u
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @u () on @b
    events () from () to () count 1
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t -> @t: no such buffer @a
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @t (b) on @a
    events () from () to () count 1
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t -> @t: @t has 1 coordinates, found 2
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @t (b, c) on @b
    events () from () to () count 1
}

// -----

// Events that do not exist.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t -> @t: @t: event coordinate b is 0 to 4, expected 0 to 3
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @t (b) on @b
    events (4) from (b) to (0) count 1
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t -> @t: @t: event coordinate b + rank is 0 to 5, expected 0 to 4
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @t (b) on @b
    events (5) from (b) to (b + rank) count 1
}

// -----

// Ranks that do not exist.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t -> @t: @t: rank b is 0 to 4, expected 0 to 1
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @t (b) on @b
    events (5) from (b) on b to (b) count 1
}

// -----

// A credit for a family that has rows always.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: @t credited by @t: its tasks use no route, so they always have rows
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (5) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[:, b]
  tile.dependence @t (b) -> @t (b) on @b
    events (5) from (b) to (b) count 1
    credited by @t
}

// -----

// What is listed are buffers of the caller, in the list that their memory space says, each once.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: arguments: no such buffer @y
tile.program @p ranks 2 (@y) -> () {
  tile.buffer @x input : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: arguments: expected input or inout buffers, @x is output
tile.program @p ranks 2 (@x) -> (@x) {
  tile.buffer @x output : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: results: expected inout or output buffers, @x is input
tile.program @p ranks 2 (@x) -> (@x) {
  tile.buffer @x input : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: arguments: @x is listed twice
tile.program @p ranks 2 (@x, @x) -> () {
  tile.buffer @x input : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: results: expected @x to be listed, which is inout
tile.program @p ranks 2 (@x: tokens) -> () {
  tile.buffer @x inout : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: expected arguments and results to be listed both or neither
"tile.program"() <{sym_name = "p", ranks = 2 : i64, arguments = []}> ({
^bb0:
}) : () -> ()

// -----

// Numbers are those of another program's arguments and results.
// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:1: error: tile.program: arguments: @x: role 'argument 1' is of a forward program; expected `forward @NAME` after the program's name
tile.program @p ranks 2 (@x: argument 1) -> () {
  tile.buffer @x input : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:30: error: Expected one of 'accumulator', 'argument', 'down_weights', 'expert_ids', 'gate_weights', 'gradient', 'output', 'result', 'saved', 'status', 'tokens', 'up_weights' as a role
tile.program @p ranks 2 (@x: weights) -> () {
  tile.buffer @x input : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:42: error: Expected one of 'argument', 'result'
tile.program @p ranks 2 (@x: gradient of input 1) -> () {
  tile.buffer @x input : !tile.buffer<5xi32>
}

// -----

// CHECK-NEXT: invalid-program.mlir:[[# @LINE + 1]]:38: error: Expected integer literal
tile.program @p ranks 2 (@x: argument) -> () {
  tile.buffer @x input : !tile.buffer<5xi32>
}
