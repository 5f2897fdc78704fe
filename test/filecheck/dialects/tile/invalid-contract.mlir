// RUN: HPMOE_INVALID

// Tasks do not write what the caller gives.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<8x16xbf16>
  tile.buffer @y input : !tile.buffer<8x16xbf16>
  // CHECK: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @y[:, :]: @y is an input, which tasks only read; expected an inout, output, workspace or window buffer
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @y[:, :]
}

// -----

// By matrix cores, in blocks.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @w input : !tile.buffer<64x32xbf16>
  tile.buffer @y input : !tile.buffer<16x32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @y[:, block(n by 16)]: @y is an input, which tasks only read; expected an inout, output, workspace or window buffer
  tile.tasks @a (n) in (2) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @w[:, block(n by 16)]
    writes @y[:, block(n by 16)]
}

// -----

// A sum of gradients into an argument that is not `inout`.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @y input : !tile.buffer<16x32xbf16>
  tile.buffer @dw input : !tile.buffer<64x32xf32>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @dw[:, :]: @dw is an input, which tasks only read; expected an inout, output, workspace or window buffer
  tile.tasks @a () in () on aic
    kernel "weight_gradient" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, accumulate = 1 : i64}
    reads @x[:, :], @y[:, :]
    writes @dw[:, :]
}

// -----

// The status of a launch.
tile.program @p ranks 2 {
  tile.buffer @status input : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @status[:]: @status is an input, which tasks only read; expected an inout, output, workspace or window buffer
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
}

// -----

// Rows of the tokens.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<tokens 8 rows, 16xbf16>
  tile.buffer @y input : !tile.buffer<tokens 8 rows, 16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @x[tokens(b of 2), :]: @x is an input, which tasks only read; expected an inout, output, workspace or window buffer
  tile.tasks @a (b) in (2) on aiv
    kernel "add_rows"
    reads @x[tokens(b of 2), :], @y[tokens(b of 2), :]
    writes @x[tokens(b of 2), :]
}

// -----

// Numbers of tokens in the place of a route.
tile.program @p ranks 2 {
  tile.buffer @x input : !tile.buffer<8x2xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @route[:]: 'counts' of kernel 'count_tokens' is no route, @route is one
  tile.tasks @a (i) in (1) on aiv
    kernel "count_tokens"
    reads @x[:, :]
    writes @route[:]
}

// -----

// A route is not the status of a launch.
tile.program @p ranks 2 {
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @other workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @other[:]: 'status' of kernel 'build_route' is no route, @other is one
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @other[:]
    scalars (rank, 20)
}

// -----

// A product in place of its left operand.
tile.program @p ranks 1 {
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h workspace : !tile.buffer<16x64xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @h[:, :]: task (0) on rank 0 reads as 'rows' elements of @h[:, :] that it writes; kernel 'grouped_matmul' expects operands that do not overlap
  tile.tasks @s (i) in (1) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @h[:, :], @y[:, :]
    writes @h[:, :]
}

// -----

// A product in place of its right operand.
tile.program @p ranks 1 {
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h workspace : !tile.buffer<64x64xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @h[:, :]: task (0) on rank 0 reads as 'weights' elements of @h[:, :] that it writes; kernel 'grouped_matmul' expects operands that do not overlap
  tile.tasks @s (i) in (1) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @y[:, :], @h[:, :]
    writes @h[:, :]
}

// -----

// A block of columns of what the task reads as a whole.
tile.program @p ranks 1 {
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h workspace : !tile.buffer<16x64xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @h[:, block(n by 16)]: task (0) on rank 0 reads as 'rows' elements of @h[:, :] that it writes; kernel 'grouped_matmul' expects operands that do not overlap
  tile.tasks @s (n) in (4) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @h[:, :], @y[:, block(n by 16)]
    writes @h[:, block(n by 16)]
}

// -----

// Only the last task reads what it writes.
tile.program @p ranks 1 {
  tile.buffer @h workspace : !tile.buffer<4x16x64xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @h[3, :, :]: task (3) on rank 0 reads as 'rows' elements of @h[i, :, :] that it writes; kernel 'copy_rows' expects operands that do not overlap
  tile.tasks @s (i) in (4) on aiv
    kernel "copy_rows"
    reads @h[i, :, :]
    writes @h[3, :, :]
}

// -----

// A sum in place of another part of its operand.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<8x16xbf16>
  tile.buffer @h workspace : !tile.buffer<8x16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @h[:, :]: task (0) on rank 0 reads as 'a' elements of @h[block(0 by 4), :] that it writes; kernel 'add_rows' expects operands that do not overlap, or the same part for both
  tile.tasks @s (i) in (1) on aiv
    kernel "add_rows"
    reads @h[block(0 by 4), :], @x[:, :]
    writes @h[:, :]
}

// -----

// A put that reaches the own rank.
tile.program @p ranks 2 {
  tile.buffer @w window : !tile.buffer<8x16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @w on (rank + p) mod 2 [:, :]: task (0) on rank 0 reads as 'rows' elements of @w[:, :] that it writes; kernel 'copy_rows' expects operands that do not overlap
  tile.tasks @s (p) in (2) on aiv
    kernel "copy_rows"
    reads @w[:, :]
    writes @w on (rank + p) mod 2 [:, :]
}

// -----

// Rows of an expert, read in one cut and written in another.
tile.program @p ranks 2 {
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 16xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes @h[grouped(e, 0 of 1, chunk 1 of 3 by 1), :]: task (0) on rank 0 reads as 'h' elements of @h[grouped(e, 0 of 1, chunk 0 of 2 by 1), :] that it writes; kernel 'swiglu' expects operands that do not overlap
  tile.tasks @s (e) in (3) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, 0 of 1, chunk 0 of 2 by 1), :]
    writes @h[grouped(e, 0 of 1, chunk 1 of 3 by 1), :]
}

// -----

// A route that is built with the help of itself.
tile.program @p ranks 2 {
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @route[:]: task () on rank 0 uses as its route elements of @route that it writes; kernel 'build_route' expects operands that do not overlap
  tile.tasks @b () in () on aiv
    kernel "build_route" using @route
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
}

// -----

// Two results in one place.
tile.program @p ranks 2 {
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @status[:]: task () on rank 0 writes as 'route' elements of @status[:] that it writes; kernel 'build_route' expects operands that do not overlap
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @status[:], @status[:]
    scalars (rank, 20)
}

// -----

// All rows that an argument may have are more than those of the launch.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @h workspace : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a reads @x[:, :]: the caller's array has only the tokens of the launch, `:` is as many rows as it may have; expected tokens(...)
  tile.tasks @a (i) in (1) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @h[:, :]
}

// -----

// Also of a result.
tile.program @p ranks 1 {
  tile.buffer @x output : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @h workspace : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @x[:, block(n by 16)]: the caller's array has only the tokens of the launch, `:` is as many rows as it may have; expected tokens(...)
  tile.tasks @a (n) in (2) on aiv
    kernel "copy_rows"
    reads @h[:, :]
    writes @x[:, block(n by 16)]
}

// -----

// And of one that is both.
tile.program @p ranks 1 {
  tile.buffer @x inout : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @h workspace : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a reads @x[:, :]: the caller's array has only the tokens of the launch, `:` is as many rows as it may have; expected tokens(...)
  tile.tasks @a (i) in (1) on aiv
    kernel "add_rows"
    reads @x[:, :], @h[:, :]
    writes @x[:, :]
}

// -----

// A list of positions is read as a whole.
tile.program @p ranks 2 {
  tile.buffer @s input : !tile.buffer<sent 14 rows, 32xbf16>
  tile.buffer @at input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.buffer @y output : !tile.buffer<tokens 7 rows, 32xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a reads @at[:, :]: the caller's array has only the tokens of the launch, `:` is as many rows as it may have; expected tokens(...)
  tile.tasks @a () in () on aiv
    kernel "sum_copies"
    reads @s[:, :], @at[:, :]
    writes @y[tokens(0 of 1), :]
}

// -----

// Token rows of a peer, which may have more of them.
tile.program @p ranks 2 {
  tile.buffer @x input : !tile.buffer<tokens 8 rows, 32xbf16>
  tile.buffer @w window : !tile.buffer<tokens 8 rows, 32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @w on (rank + 1) mod 2 [tokens(c of 2), :]: its receiver may have another number of rows
  tile.tasks @a (c) in (2) on aiv
    kernel "copy_rows"
    reads @x[tokens(c of 2), :]
    writes @w on (rank + 1) mod 2 [tokens(c of 2), :]
}

// -----

// Rows of another rank.
tile.program @p ranks 2 {
  tile.buffer @x input : !tile.buffer<sent 14 rows, 32xbf16>
  tile.buffer @w window : !tile.buffer<grouped 20 rows, 32xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @w on p [grouped(e, p of 2), :]: a put writes the rows of its own rank
  tile.tasks @a (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @w on p [grouped(e, p of 2), :]
}

// -----

// Rows of all ranks.
tile.program @p ranks 2 {
  tile.buffer @x input : !tile.buffer<sent 14 rows, 32xbf16>
  tile.buffer @w window : !tile.buffer<grouped 20 rows, 32xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @w on p [grouped(e, 0 of 1), :]: a put writes the rows of its own rank
  tile.tasks @a (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 3 + e), :]
    writes @w on p [grouped(e, 0 of 1), :]
}

// -----

// Rows of a peer's experts, sent to itself.
tile.program @p ranks 2 {
  tile.buffer @x input : !tile.buffer<grouped 20 rows, 32xbf16>
  tile.buffer @w window : !tile.buffer<sent 14 rows, 32xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @w on p [sent(p * 3 + e), :]: a put writes the rows of its own experts
  tile.tasks @a (p, e) in (2, 3) on aiv
    kernel "copy_rows" using @route
    reads @x[grouped(e, p of 2), :]
    writes @w on p [sent(p * 3 + e), :]
}

// -----

// A block that is no multiple of the cube's.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @w input : !tile.buffer<64x32xbf16>
  tile.buffer @h workspace : !tile.buffer<16x32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: kernel 'grouped_matmul': expected tile_m to be a positive multiple of 16, found 24
  tile.tasks @a (i) in (1) on aic
    kernel "grouped_matmul" {tile_m = 24 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @w[:, :]
    writes @h[:, :]
}

// -----

// A block of nothing.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @w input : !tile.buffer<64x32xbf16>
  tile.buffer @h workspace : !tile.buffer<16x32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: kernel 'grouped_matmul': expected tile_k to be a positive multiple of 16, found 0
  tile.tasks @a (i) in (1) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 0 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @w[:, :]
    writes @h[:, :]
}

// -----

// An option that is neither set nor unset.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @w input : !tile.buffer<64x32xbf16>
  tile.buffer @h workspace : !tile.buffer<16x32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: kernel 'grouped_matmul': expected transpose_rhs to be 0 or 1, found 2
  tile.tasks @a (i) in (1) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 2 : i64}
    reads @x[:, :], @w[:, :]
    writes @h[:, :]
}

// -----

// Sums that would be rounded each time.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @y input : !tile.buffer<16x32xbf16>
  tile.buffer @dw inout : !tile.buffer<64x32xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a writes @dw[:, :]: sums are of f32 elements, found !tile.buffer<64x32xbf16>
  tile.tasks @a () in () on aic
    kernel "weight_gradient" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, accumulate = 1 : i64}
    reads @x[:, :], @y[:, :]
    writes @dw[:, :]
}

// -----

// A peer that 32 bits compute as another.
tile.program @p ranks 4 {
  tile.buffer @x input : !tile.buffer<8x16xbf16>
  tile.buffer @w window : !tile.buffer<8x16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a: (rank * 2147483647 + p) mod 4: expected values and intermediate values below 2^32, as tasks compute with 32 bits, found up to 6442450944
  tile.tasks @a (p) in (4) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @w on (rank * 2147483647 + p) mod 4 [:, :]
}

// -----

// An index, as well.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<5x8x16xbf16>
  tile.buffer @h workspace : !tile.buffer<5x8x16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @a: i * 2147483647 mod 5: expected values and intermediate values below 2^32, as tasks compute with 32 bits, found up to 8589934588
  tile.tasks @a (i) in (5) on aiv
    kernel "copy_rows"
    reads @x[(i * 2147483647) mod 5, :, :]
    writes @h[i, :, :]
}

// -----

// A status of two lines.
tile.program @p ranks 2 {
  tile.buffer @status output : !tile.buffer<32xi32>
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @status[:]: the status of a route has at most 16 words, found !tile.buffer<32xi32>
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
}

// -----

// Copies are not scattered.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<8x16xbf16>
  tile.buffer @h workspace : !tile.buffer<8x16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes scatter @h[:, :]: kernel 'copy_rows' writes the whole of 'out', so tasks of one family must write different parts, without `scatter`
  tile.tasks @s (i) in (4) on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes scatter @h[:, :]
}

// -----

// Nor are products of which each task computes all.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<16x64xbf16>
  tile.buffer @y input : !tile.buffer<64x64xbf16>
  tile.buffer @h workspace : !tile.buffer<16x64xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s writes scatter @h[:, :]: kernel 'grouped_matmul' writes the whole of 'out', so tasks of one family must write different parts, without `scatter`
  tile.tasks @s (i) in (4) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64}
    reads @x[:, :], @y[:, :]
    writes scatter @h[:, :]
}

// -----

// What is read is not scattered.
tile.program @p ranks 1 {
  tile.buffer @x input : !tile.buffer<8x16xbf16>
  tile.buffer @h workspace : !tile.buffer<8x16xbf16>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @s reads scatter @x[:, :]: `scatter` is of what a task writes
  tile.tasks @s (i) in (1) on aiv
    kernel "copy_rows"
    reads scatter @x[:, :]
    writes @h[:, :]
}

// -----

// Rows of another rank.
tile.program @p ranks 2 {
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @route[:]: rank: expected that of the task, found 0
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (0, 20)
}

// -----

// A capacity that grows with the rank.
tile.program @p ranks 2 {
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<2x12xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @route[:]: capacity: expected at most 20 rows, for which there is memory, found rank + 20
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20 + rank)
}

// -----

// Counts of other experts.
tile.program @p ranks 2 {
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<2x8xi32>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @b writes @route[:]: expected counts of 2x12 words, two for each of 2 ranks and 6 experts, found !tile.buffer<2x8xi32>
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
}

// -----

// A route over other ranks.
tile.program @p ranks 3 {
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @counts input : !tile.buffer<3x12xi32>
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.buffer: @route is a route over 2 ranks, the program runs on 3
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.tasks @b () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
}

// -----

// A route in a window, where no task looks it up.
tile.program @p ranks 2 {
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.buffer: a route is in one copy in the workspace, where tasks look up their rows, found 1 in window memory
  tile.buffer @route window : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

}

// -----

// Two copies of a route.
tile.program @p ranks 2 {
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.buffer: a route is in one copy in the workspace, where tasks look up their rows, found 2 in workspace memory
  tile.buffer @route workspace copies 2 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

}

// -----

// A route that the caller gives.
tile.program @p ranks 2 {
  // CHECK-NEXT: invalid-contract.mlir:[[# @LINE + 1]]:3: error: tile.buffer: a route is in one copy in the workspace, where tasks look up their rows, found 1 in input memory
  tile.buffer @route input : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

}
