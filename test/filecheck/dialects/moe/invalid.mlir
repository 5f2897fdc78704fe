// RUN: HPMOE_INVALID

// Experts that can't be spread evenly over the ranks.
// CHECK: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected a number of experts that is a multiple of the number of ranks, found 5 experts over 2 ranks
!route = !moe.route<7 tokens, top 2, 5 experts over 2 ranks, 28 rows>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected at least 1 expert and 1 rank, found 4 over 0
!route = !moe.route<7 tokens, top 2, 4 experts over 0 ranks, 28 rows>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected a capacity of at least 1 token, found 0
!route = !moe.route<0 tokens, top 2, 4 experts over 2 ranks, 28 rows>

// -----

// A token can't go to more experts than there are, nor to none.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected top between 1 and the number of experts, 4, found 5
!route = !moe.route<7 tokens, top 5, 4 experts over 2 ranks, 28 rows>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected top between 1 and the number of experts, 4, found 0
!route = !moe.route<7 tokens, top 0, 4 experts over 2 ranks, 28 rows>

// -----

// More than every token of every rank for each expert that a token can go to.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected a capacity between 1 and 28 rows, the most that a rank can receive, found 29
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 29 rows>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:10: error: moe.route: expected a capacity between 1 and 28 rows, the most that a rank can receive, found 0
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 0 rows>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:40: error: moe.experts: expected a number of experts that is a multiple of the number of ranks, found 3 experts over 2 ranks
"test.op"() {type = tensor<1x4x4xbf16, #moe.experts<3 over 2 ranks>>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:40: error: moe.experts: expected at least 1 expert and 1 rank, found 0 over 2
"test.op"() {type = tensor<0x4x4xbf16, #moe.experts<0 over 2 ranks>>} : () -> ()

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:38: error: moe.tokens: expected a capacity of at least 1 row, found 0
"test.op"() {type = tensor<?x4xbf16, #moe.tokens<0 rows>>} : () -> ()

// -----

// The unit of a capacity is part of the text.
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:50: error: Expected 'rows'
"test.op"() {type = tensor<?x4xbf16, #moe.sent<14>>} : () -> ()

// -----

// Three ids a token, but top 2.
%ids = "test.op"() : () -> tensor<?x3xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.route: ids: expected tensor<?x2xi32, #moe.tokens<7 rows>>, found tensor<?x3xi32, #moe.tokens<7 rows>>
%route = moe.route %ids : tensor<?x3xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>

// -----

%ids = "test.op"() : () -> tensor<?x2xi64, #moe.tokens<7 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.route: ids: expected tensor<?x2xi32, #moe.tokens<7 rows>>, found tensor<?x2xi64, #moe.tokens<7 rows>>
%route = moe.route %ids : tensor<?x2xi64, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>

// -----

// More tokens than the route has room for.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xbf16, #moe.tokens<8 rows>>
%x, %route = "test.op"() : () -> (!x, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch: x: expected tensor<?xNxTYPE, #moe.tokens<7 rows>>, found tensor<?x5xbf16, #moe.tokens<8 rows>>
%recv = moe.dispatch %x by %route : !x, !route -> tensor<?x5xbf16, #moe.grouped<28 rows>>

// -----

// Rows of a static number.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<7x5xbf16, #moe.tokens<7 rows>>
%x, %route = "test.op"() : () -> (!x, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch: x: expected tensor<?xNxTYPE, #moe.tokens<7 rows>>, found tensor<7x5xbf16, #moe.tokens<7 rows>>
%recv = moe.dispatch %x by %route : !x, !route -> tensor<?x5xbf16, #moe.grouped<28 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xi8, #moe.tokens<7 rows>>
%x, %route = "test.op"() : () -> (!x, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch: x: expected elements of bf16, f16, f32 or f64, found i8
%recv = moe.dispatch %x by %route : !x, !route -> tensor<?x5xi8, #moe.grouped<28 rows>>

// -----

// Less room for the received rows than the route has.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xbf16, #moe.tokens<7 rows>>
%x, %route = "test.op"() : () -> (!x, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch: received: expected tensor<?x5xbf16, #moe.grouped<28 rows>>, found tensor<?x5xbf16, #moe.grouped<27 rows>>
%recv = moe.dispatch %x by %route : !x, !route -> tensor<?x5xbf16, #moe.grouped<27 rows>>

// -----

// The route in the place of the rows.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
%route = "test.op"() : () -> !route
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch: !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows> should be of base attribute tensor
%recv = moe.dispatch %route by %route : !route, !route -> tensor<?x5xbf16, #moe.grouped<28 rows>>

// -----

// The rows in the place of the route.
!x = tensor<?x5xbf16, #moe.tokens<7 rows>>
%x = "test.op"() : () -> !x
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch: tensor<?x5xbf16, #moe.tokens<7 rows>> should be of base attribute moe.route
%recv = moe.dispatch %x by %x : !x, !x -> tensor<?x5xbf16, #moe.grouped<28 rows>>

// -----

// Rows that have not been dispatched.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xbf16, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.tokens<7 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: lhs: expected tensor<?xNxTYPE, #moe.grouped<28 rows>>, found tensor<?x5xbf16, #moe.tokens<7 rows>>
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xi8, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xi8, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: lhs: expected elements of bf16, f16, f32 or f64, found i8
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x3xi8, #moe.grouped<28 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xf32, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: rhs: expected elements of bf16, as lhs has, found f32
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

// The weights of all experts, not of this rank's.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<4x5x3xbf16, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: rhs: expected tensor<2x5xNxbf16, #moe.experts<4 over 2 ranks>>, found tensor<4x5x3xbf16, #moe.experts<4 over 2 ranks>>
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

// Weights that are not spread over the ranks.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xbf16>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: rhs: expected tensor<2x5xNxbf16, #moe.experts<4 over 2 ranks>>, found tensor<2x5x3xbf16>
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

// Transposed weights without saying so.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x3x5xbf16, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: rhs: expected tensor<2x5xNxbf16, #moe.experts<4 over 2 ranks>>, found tensor<2x3x5xbf16, #moe.experts<4 over 2 ranks>>
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

// The other way round.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xbf16, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: rhs: expected tensor<2xNx5xbf16, #moe.experts<4 over 2 ranks>>, found tensor<2x5x3xbf16, #moe.experts<4 over 2 ranks>>
%h = moe.grouped_matmul %x, %w by %route {transpose_rhs} : !x, !w, !route -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xbf16, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: product: expected tensor<?x3xbf16, #moe.grouped<28 rows>>, found tensor<?x5xbf16, #moe.grouped<28 rows>>
%h = moe.grouped_matmul %x, %w by %route : !x, !w, !route -> tensor<?x5xbf16, #moe.grouped<28 rows>>

// -----

// A sum over rows has rows on both sides.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!w = tensor<2x5x3xbf16, #moe.experts<4 over 2 ranks>>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %w, %route = "test.op"() : () -> (!x, !w, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: rhs: expected tensor<?xNxTYPE, #moe.grouped<28 rows>>, found tensor<2x5x3xbf16, #moe.experts<4 over 2 ranks>>
%g = moe.grouped_matmul %x, %w by %route {transpose_lhs} : !x, !w, !route -> !w

// -----

// A gradient narrower than its operands.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xf64, #moe.grouped<28 rows>>
%x, %route = "test.op"() : () -> (!x, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: product: expected tensor<2x5x5xf64, #moe.experts<4 over 2 ranks>>, found tensor<2x5x5xbf16, #moe.experts<4 over 2 ranks>>
%g = moe.grouped_matmul %x, %x by %route {transpose_lhs} : !x, !x, !route -> tensor<2x5x5xbf16, #moe.experts<4 over 2 ranks>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %route = "test.op"() : () -> (!x, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: expected at most one of transpose_lhs and transpose_rhs, found both
%g = moe.grouped_matmul %x, %x by %route {transpose_lhs, transpose_rhs} : !x, !x, !route -> tensor<2x5x5xbf16, #moe.experts<4 over 2 ranks>>

// -----

%h = "test.op"() : () -> tensor<?x6xbf16>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu: h: expected tensor<?xNxTYPE, #moe.grouped<C rows>>, found tensor<?x6xbf16>
%a = moe.swiglu %h : tensor<?x6xbf16> -> tensor<?x3xbf16>

// -----

%h = "test.op"() : () -> tensor<?x2x3xbf16, #moe.grouped<28 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu: h: expected tensor<?xNxTYPE, #moe.grouped<28 rows>>, found tensor<?x2x3xbf16, #moe.grouped<28 rows>>
%a = moe.swiglu %h : tensor<?x2x3xbf16, #moe.grouped<28 rows>> -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

%h = "test.op"() : () -> tensor<?x6xi32, #moe.grouped<28 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu: h: expected elements of bf16, f16, f32 or f64, found i32
%a = moe.swiglu %h : tensor<?x6xi32, #moe.grouped<28 rows>> -> tensor<?x3xi32, #moe.grouped<28 rows>>

// -----

// No gate half and up half of the same width.
%h = "test.op"() : () -> tensor<?x7xbf16, #moe.grouped<28 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu: h: expected an even width, a gate half and an up half, found 7
%a = moe.swiglu %h : tensor<?x7xbf16, #moe.grouped<28 rows>> -> tensor<?x3xbf16, #moe.grouped<28 rows>>

// -----

%h = "test.op"() : () -> tensor<?x6xbf16, #moe.grouped<28 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu: activation: expected tensor<?x3xbf16, #moe.grouped<28 rows>>, found tensor<?x6xbf16, #moe.grouped<28 rows>>
%a = moe.swiglu %h : tensor<?x6xbf16, #moe.grouped<28 rows>> -> tensor<?x6xbf16, #moe.grouped<28 rows>>

// -----

// Rows that have come back already.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!y = tensor<?x5xbf16, #moe.sent<14 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
%y, %gate, %route = "test.op"() : () -> (!y, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.combine: y: expected tensor<?xNxTYPE, #moe.grouped<28 rows>>, found tensor<?x5xbf16, #moe.sent<14 rows>>
%out = moe.combine %y, %gate by %route : !y, !gate, !route -> tensor<?x5xbf16, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!y = tensor<?x5xi16, #moe.grouped<28 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
%y, %gate, %route = "test.op"() : () -> (!y, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.combine: y: expected elements of bf16, f16, f32 or f64, found i16
%out = moe.combine %y, %gate by %route : !y, !gate, !route -> tensor<?x5xi16, #moe.tokens<7 rows>>

// -----

// Gate weights are not rounded to the activation's type.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!y = tensor<?x5xbf16, #moe.grouped<28 rows>>
!gate = tensor<?x2xbf16, #moe.tokens<7 rows>>
%y, %gate, %route = "test.op"() : () -> (!y, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.combine: gate: expected tensor<?x2xf32, #moe.tokens<7 rows>>, found tensor<?x2xbf16, #moe.tokens<7 rows>>
%out = moe.combine %y, %gate by %route : !y, !gate, !route -> tensor<?x5xbf16, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!y = tensor<?x5xbf16, #moe.grouped<28 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
%y, %gate, %route = "test.op"() : () -> (!y, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.combine: out: expected tensor<?x5xbf16, #moe.tokens<7 rows>>, found tensor<?x5xf32, #moe.tokens<7 rows>>
%out = moe.combine %y, %gate by %route : !y, !gate, !route -> tensor<?x5xf32, #moe.tokens<7 rows>>

// -----

// Rows that have not come back.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!y = tensor<?x5xbf16, #moe.grouped<28 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
%y, %gate, %route = "test.op"() : () -> (!y, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.weighted_sum: back: expected tensor<?xNxTYPE, #moe.sent<14 rows>>, found tensor<?x5xbf16, #moe.grouped<28 rows>>
%out = moe.weighted_sum %y, %gate by %route : !y, !gate, !route -> tensor<?x5xbf16, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!back = tensor<?x5xi32, #moe.sent<14 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
%back, %gate, %route = "test.op"() : () -> (!back, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.weighted_sum: back: expected elements of bf16, f16, f32 or f64, found i32
%out = moe.weighted_sum %back, %gate by %route : !back, !gate, !route -> tensor<?x5xi32, #moe.tokens<7 rows>>

// -----

// One gate weight for each of the two experts of a token.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!back = tensor<?x5xbf16, #moe.sent<14 rows>>
!gate = tensor<?x1xf32, #moe.tokens<7 rows>>
%back, %gate, %route = "test.op"() : () -> (!back, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.weighted_sum: gate: expected tensor<?x2xf32, #moe.tokens<7 rows>>, found tensor<?x1xf32, #moe.tokens<7 rows>>
%out = moe.weighted_sum %back, %gate by %route : !back, !gate, !route -> tensor<?x5xbf16, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!back = tensor<?x5xbf16, #moe.sent<14 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
%back, %gate, %route = "test.op"() : () -> (!back, !gate, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: moe.weighted_sum: out: expected tensor<?x5xbf16, #moe.tokens<7 rows>>, found tensor<?x4xbf16, #moe.tokens<7 rows>>
%out = moe.weighted_sum %back, %gate by %route : !back, !gate, !route -> tensor<?x4xbf16, #moe.tokens<7 rows>>
