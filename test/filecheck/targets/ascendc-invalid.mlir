// RUN: REJECTED hpmoe-opt %s --split-input-file -t ascendc | filecheck %s --match-full-lines

// A put of rows that another rank sent.
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace at 512 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @w window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  // CHECK: ascendc-invalid.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @t writes @w on p [grouped(0, p of 2), :]: a put writes the rows of its own rank
  tile.tasks @t (p) in (2) on aiv
    kernel "copy_rows" using @route
    reads @a[:, :]
    writes @w on p [grouped(0, p of 2), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0, 1]],
    [] times 47
  }
}

// -----

// Groups of several ranks are no place to put rows.
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace at 512 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @w window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  // CHECK-NEXT: ascendc-invalid.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @t writes @w on p [grouped(0, 0 of 1), :]: a put writes the rows of its own rank
  tile.tasks @t (p) in (2) on aiv
    kernel "copy_rows" using @route
    reads @a[:, :]
    writes @w on p [grouped(0, 0 of 1), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0, 1]],
    [] times 47
  }
}

// -----

// Rows of experts of another rank cannot be returned.
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace at 512 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @w window at 0 : !tile.buffer<sent 14 rows, 48xbf16>
  // CHECK-NEXT: ascendc-invalid.mlir:[[# @LINE + 1]]:3: error: tile.tasks: @t writes @w on p [sent(p * 3), :]: a put writes the rows of its own experts
  tile.tasks @t (p) in (2) on aiv
    kernel "copy_rows" using @route
    reads @a[:, :]
    writes @w on p [sent(p * 3), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0, 1]],
    [] times 47
  }
}

// -----

// A tile of three dimensions.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: @a[:, :, :]: a tile has at most two dimensions, the inner ones
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<2x5x48xbf16>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t () in () on aiv
    kernel "copy_rows"
    reads @a[:, :, :]
    writes @b[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0]],
    [] times 47
  }
}

// -----

// One dimension in the middle taken out.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: @a[:, 3]: a tile has at most two dimensions, the inner ones
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<5x48xbf16>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t () in () on aiv
    kernel "copy_rows"
    reads @a[:, 3]
    writes @b[0, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0]],
    [] times 47
  }
}

// -----

// Elements that Ascend C has no name for here.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: @a: expected elements of bf16 or f16 or f32 or i32, found i8
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<5x48xi8>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t () in () on aiv
    kernel "copy_rows"
    reads @a[:, :]
    writes @b[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0]],
    [] times 47
  }
}

// -----

// Elements of a fixed type that are of another.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: operand counts of kernel 'count_tokens' has elements of i32, found bf16
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<5x48xbf16>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t () in () on aiv
    kernel "count_tokens"
    reads @a[:, :]
    writes @b[0, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0]],
    [] times 47
  }
}

// -----

// Elements of the activation type that are numbers.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: operand rows of kernel 'copy_rows' has elements of f16 or bf16, found i32
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<5x48xi32>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t () in () on aiv
    kernel "copy_rows"
    reads @a[:, :]
    writes @b[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0]],
    [] times 47
  }
}

// -----

// Two activation types in one kernel.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: expected one activation type, found bf16, f16
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<5x48xf16>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t () in () on aiv
    kernel "copy_rows"
    reads @a[:, :]
    writes @b[:, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0]],
    [] times 47
  }
}

// -----

// Unsigned arithmetic has no negative numbers.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: negative constant -1 in an index expression
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @a workspace at 0 : !tile.buffer<5x48xbf16>
  tile.buffer @b workspace at 512 : !tile.buffer<5x48xbf16>
  tile.tasks @t (i) in (4) on aiv
    kernel "copy_rows"
    reads @a[(i + -1) mod 5, :]
    writes @b[i, :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0, 1, 2, 3]],
    [] times 47
  }
}

// -----

// A family cuts the same rows in two ways.
// CHECK-NEXT: ascendc-invalid.mlir: error: target ascendc: @t: accesses of one family cut rows and columns in the same way: Groups is 1 in one and 2 in another
queue.program @p ranks 2 machine "ascend-a3" counters at 4096 {
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace at 512 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace at 3072 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @t (g) in (2) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(0, g of 2), :]
    writes @b[grouped(0, 0 of 1), :]
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@t[0, 1]],
    [] times 47
  }
}
