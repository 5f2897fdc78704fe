// RUN: HPMOE_INVALID

// An extent of nothing.
// CHECK: invalid.mlir:[[# @LINE + 1]]:21: error: extents of a buffer must be positive, found [0, 4]
"test.op"() {type = !tile.buffer<0x4xbf16>} : () -> ()

// -----

// The unit of a capacity is part of the text.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:44: error: Expected 'rows'
"test.op"() {type = !tile.buffer<grouped 20, 4xbf16>} : () -> ()

// -----

// A coordinate that no grid has.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:34: error: unknown coordinate 'row' in an index expression, expected one of d0 to d31, rank
"test.op"() {index = #tile.index<row + 1>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:39: error: Expected integer literal
"test.op"() {index = #tile.index<d0 * d1>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:41: error: expected a positive divisor, found 0
"test.op"() {index = #tile.index<d0 mod 0>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:46: error: expected a positive divisor, found -2
"test.op"() {index = #tile.index<d0 floordiv -2>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:38: error: identifier expected in an index expression
"test.op"() {index = #tile.index<4 + >} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:51: error: expected a positive number, found 0
"test.op"() {region = #tile.access<@b[block(d0 by 0)]>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:52: error: expected a positive number, found -1
"test.op"() {region = #tile.access<@b[tokens(d0 of -1)]>} : () -> ()

// -----

// A chunk says how many there are and where they may be cut.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:61: error: Expected 'by'
"test.op"() {region = #tile.access<@b[sent(d0, chunk d1 of 4)]>} : () -> ()

// -----

// A group says of how many.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:53: error: Expected 'of'
"test.op"() {region = #tile.access<@b[grouped(d0, d1)]>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:16: error: Expected one of 'inout', 'input', 'output', 'window', 'workspace' as the buffer's memory space
tile.buffer @b cache : !tile.buffer<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:24: error: expected !tile.buffer or !moe.route, found tensor<5xi32>
tile.buffer @b input : tensor<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: "window" should be of base attribute tile.memory_space
"tile.buffer"() <{sym_name = "b", space = "window", type = !tile.buffer<5xi32>, copies = 1 : i64}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:62: error: Expected `input`, `inout`, `output`, `workspace`, or `window`.
"tile.buffer"() <{sym_name = "b", space = #tile.memory_space<cache>, type = !tile.buffer<5xi32>, copies = 1 : i64}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: expected !tile.buffer or !moe.route, found i32
"tile.buffer"() <{sym_name = "b", space = #tile.memory_space<window>, type = i32, copies = 1 : i64}> : () -> ()

// -----

// Launches alternate between two copies at most.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: a buffer has 1 or 2 copies, found 3
tile.buffer @b window copies 3 : !tile.buffer<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: an input buffer belongs to the caller: it has one copy and no offset
tile.buffer @b input copies 2 : !tile.buffer<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: an output buffer belongs to the caller: it has one copy and no offset
tile.buffer @b output at 64 : !tile.buffer<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: the offset of a buffer must be a multiple of 64, found 96
tile.buffer @b workspace at 96 : !tile.buffer<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.buffer: the offset of a buffer must be a multiple of 64, found -64
tile.buffer @b workspace at -64 : !tile.buffer<5xi32>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:29: error: expected as many extents as coordinates, found 1 and 2
tile.tasks @a (b, c) in (2) on aiv
  kernel "count_tokens"

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:29: error: Expected one of 'aic', 'aiv' as the kind of core
tile.tasks @a (b) in (2) on gpu
  kernel "count_tokens"

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: expected as many extents as coordinates, found 2 and 1
"tile.tasks"() <{sym_name = "a", dims = ["b"], grid = array<i64: 2, 2>, core = "aiv", kernel = "count_tokens", options = {}, reads = [#tile.access<@i[:, :]>], writes = [#tile.access<@o[:, :]>], scalars = []}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: the grid names a coordinate twice
tile.tasks @a (b, b) in (2, 3) on aiv
  kernel "count_tokens"
  reads @i[:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: extents of the grid must be positive, found [2, 0]
tile.tasks @a (b, c) in (2, 0) on aiv
  kernel "count_tokens"
  reads @i[:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: a family has at most 16777216 tasks, found 10000000000000
tile.tasks @a (b, c) in (100, 100000000000) on aiv
  kernel "count_tokens"
  reads @i[:, :]
  writes @o[:, :]

// -----

// Generic text has no names that could tell.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: an access uses coordinate d1 of a grid of 1 coordinates
"tile.tasks"() <{sym_name = "a", dims = ["b"], grid = array<i64: 2>, core = "aiv", kernel = "count_tokens", options = {}, reads = [#tile.access<@i[d1, :]>], writes = [#tile.access<@o[:, :]>], scalars = []}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: an access uses coordinate d3 of a grid of 0 coordinates
"tile.tasks"() <{sym_name = "a", dims = [], grid = array<i64>, core = "aiv", kernel = "place_tokens", options = {}, reads = [], writes = [], scalars = [#tile.index<d3>]}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: option rounds: expected an integer, found "two"
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokens" {rounds = "two"}
  reads @i[:, :]
  writes @o[:, :]

// -----

// A kernel that nobody registered.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: unknown kernel 'count_tokes', registered: {{.*}}; did you mean 'count_tokens'?
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokes"
  reads @i[:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: kernel 'count_tokens' takes 1 reads, found 2
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokens"
  reads @i[:, :], @j[:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: kernel 'count_tokens' takes 1 writes, found 0
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokens"
  reads @i[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: kernel 'count_tokens' takes 0 scalars, found 2
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokens"
  reads @i[:, :]
  writes @o[:, :]
  scalars (b, rank)

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: kernel 'count_tokens' runs on aiv, found aic
tile.tasks @a (b) in (2) on aic
  kernel "count_tokens"
  reads @i[:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: kernel 'count_tokens' takes the options none, found rounds
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokens" {rounds = 2 : i64}
  reads @i[:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: kernel 'grouped_matmul' takes the options tile_m, tile_n, tile_k, transpose_rhs, found tile_m, tile_n
tile.tasks @a (b) in (2) on aic
  kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64}
  reads @i[:, :], @w[0, :, :]
  writes @o[:, :]

// -----

// One signal at the end of a task cannot announce writes to two ranks.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: all writes of a family must be to the same rank's memory
tile.tasks @a (b) in (2) on aiv
  kernel "build_route"
  reads @i[:, :]
  writes @o on b [:], @p[:]
  scalars (rank, 5)

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.tasks: a task cannot read another rank's memory: communication is by puts
tile.tasks @a (b) in (2) on aiv
  kernel "count_tokens"
  reads @i on b [:, :]
  writes @o[:, :]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.dependence: a family of events with 1 coordinates needs as many expressions on each side, found 1 and 0
"tile.dependence"() <{producer = @a, consumer = @b, producer_dims = ["x"], consumer_dims = ["y"], buffers = [@i], events = array<i64: 2>, source = [#tile.index<d0>], target = [], counts = array<i32: 1>}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.dependence: extents of the events must be positive, found [0]
tile.dependence @a (x) -> @b (y) on @i
  events (0) from (x) to (y) count 1

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.dependence: expected 1 or 3 thresholds, found 2
tile.dependence @a (x) -> @b (y) on @i
  events (3) from (x) to (y) count [1, 2]

// -----

// A threshold that is reached before anything has happened.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.dependence: a threshold must be positive
tile.dependence @a (x) -> @b (y) on @i
  events (3) from (x) to (y) count [1, 0, 1]

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.dependence: an event index uses a coordinate the producer does not have
"tile.dependence"() <{producer = @a, consumer = @b, producer_dims = ["x"], consumer_dims = ["y"], buffers = [@i], events = array<i64: 2>, source = [#tile.index<d1>], target = [#tile.index<d0>], counts = array<i32: 1>}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.dependence: an event index uses a coordinate the consumer does not have
"tile.dependence"() <{producer = @a, consumer = @b, producer_dims = ["x"], consumer_dims = ["y"], buffers = [@i], events = array<i64: 2>, source = [#tile.index<d0>], target = [#tile.index<d1>], counts = array<i32: 1>}> : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:20: error: unknown coordinate 'y' in an index expression, expected one of x, rank
tile.dependence @a (x) -> @b (y) on @i
  events (3) from (y) to (y) count 1

// -----

// Elements that memory can't hold.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:30: error: elements of a buffer have 8, 16, 32 or 64 bits, as i32 or bf16, found index
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<4x1xindex>
}

// -----

// More bytes than any memory has.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 2]]:30: error: a buffer has at most 1099511627776 bytes, found 4398046511104
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<1099511627776x2xbf16>
}

// -----

// Constants that don't fit into the device's words.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 4]]:18: error: expected a number of at most 2147483647 in an index expression, found 2147483648
tile.program @p ranks 2 {
  tile.tasks @t (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[i * 2147483648, :]
    writes @b[i, :]
}

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 4]]:25: error: expected a number of at most 2147483647, found 2147483648
tile.program @p ranks 2 {
  tile.tasks @t (i) in (2) on aiv
    kernel "count_tokens"
    reads @b[block(i by 2147483648), :]
    writes @b[i, :]
}

// -----

// A range that would take too long to find.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: tile.program: an index expression with up to 8388608 values between 0 and 2 is too large to be checked: expected at most 4194304, smaller than 2^62
tile.program @p ranks 8388608 {
  tile.buffer @b workspace : !tile.buffer<4x6xi32>
  tile.tasks @t () in () on aiv
    kernel "count_tokens"
    reads @b[rank mod 3, :]
    writes @b[0, :]
}

// -----

// More events than there can be counters.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 7]]:3: error: tile.dependence: a family of events has at most 16777216, found 16781312
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<4x6xi32>
  tile.tasks @t () in () on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @b[1, :]
  tile.dependence @t () -> @t () on @b
    events (4096, 4097) from (0, 0) to (0, 0) count 1
}
