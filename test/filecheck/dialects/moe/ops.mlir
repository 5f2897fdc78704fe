// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<28 rows>>

// A route is known to all ranks: three experts on each of two.
%ids, %x, %gate = "test.op"() : () -> (!ids, !x, !gate)
%route = moe.route %ids : !ids -> !route

// Rows come in token order, are received by expert, and go back.
%recv = moe.dispatch %x by %route : !x, !route -> !rows
%out = moe.combine %recv, %gate by %route : !rows, !gate, !route -> !x

// CHECK:      %ids, %x, %gate = "test.op"() : () -> (tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>
// CHECK-NEXT: %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows> -> tensor<?x48xbf16, #moe.grouped<28 rows>>
// CHECK-NEXT: %out = moe.combine %recv, %gate by %route : tensor<?x48xbf16, #moe.grouped<28 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>

// GENERIC:      %ids, %x, %gate = "test.op"() : () -> (tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// GENERIC-NEXT: %route = "moe.route"(%ids) : (tensor<?x2xi32, #moe.tokens<7 rows>>) -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>
// GENERIC-NEXT: %recv = "moe.dispatch"(%x, %route) : (tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>) -> tensor<?x48xbf16, #moe.grouped<28 rows>>
// GENERIC-NEXT: %out = "moe.combine"(%recv, %gate, %route) : (tensor<?x48xbf16, #moe.grouped<28 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>) -> tensor<?x48xbf16, #moe.tokens<7 rows>>

// -----

// Each form of the grouped matmul; the gradient of the weights may be f32.
!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!a = tensor<?x48xf16, #moe.grouped<20 rows>>
!b = tensor<?x16xf16, #moe.grouped<20 rows>>
!w = tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>

%route, %a, %b, %w = "test.op"() : () -> (!route, !a, !b, !w)
%0 = moe.grouped_matmul %a, %w by %route : !a, !w, !route -> !b
%1 = moe.grouped_matmul %b, %w by %route {transpose_rhs} : !b, !w, !route -> !a
%2 = moe.grouped_matmul %a, %b by %route {transpose_lhs} : !a, !b, !route -> !w
%3 = moe.grouped_matmul %a, %b by %route {transpose_lhs} : !a, !b, !route -> tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// CHECK:      %route, %a, %b, %w = "test.op"() : () -> (!moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>)
// CHECK-NEXT: %0 = moe.grouped_matmul %a, %w by %route : tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x16xf16, #moe.grouped<20 rows>>
// CHECK-NEXT: %1 = moe.grouped_matmul %b, %w by %route {transpose_rhs} : tensor<?x16xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xf16, #moe.grouped<20 rows>>
// CHECK-NEXT: %2 = moe.grouped_matmul %a, %b by %route {transpose_lhs} : tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>
// CHECK-NEXT: %3 = moe.grouped_matmul %a, %b by %route {transpose_lhs} : tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// GENERIC:      %route, %a, %b, %w = "test.op"() : () -> (!moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>)
// GENERIC-NEXT: %0 = "moe.grouped_matmul"(%a, %w, %route) : (tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<?x16xf16, #moe.grouped<20 rows>>
// GENERIC-NEXT: %1 = "moe.grouped_matmul"(%b, %w, %route) <{transpose_rhs}> : (tensor<?x16xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<?x48xf16, #moe.grouped<20 rows>>
// GENERIC-NEXT: %2 = "moe.grouped_matmul"(%a, %b, %route) <{transpose_lhs}> : (tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<3x48x16xf16, #moe.experts<6 over 2 ranks>>
// GENERIC-NEXT: %3 = "moe.grouped_matmul"(%a, %b, %route) <{transpose_lhs}> : (tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// -----

// Row by row, the first half of the columns gates the second.
%h = "test.op"() : () -> tensor<?x10xf32, #moe.grouped<20 rows>>
%a = moe.swiglu %h : tensor<?x10xf32, #moe.grouped<20 rows>> -> tensor<?x5xf32, #moe.grouped<20 rows>>

// CHECK:      %h = "test.op"() : () -> tensor<?x10xf32, #moe.grouped<20 rows>>
// CHECK-NEXT: %a = moe.swiglu %h : tensor<?x10xf32, #moe.grouped<20 rows>> -> tensor<?x5xf32, #moe.grouped<20 rows>>

// GENERIC:      %h = "test.op"() : () -> tensor<?x10xf32, #moe.grouped<20 rows>>
// GENERIC-NEXT: %a = "moe.swiglu"(%h) : (tensor<?x10xf32, #moe.grouped<20 rows>>) -> tensor<?x5xf32, #moe.grouped<20 rows>>

// -----

// What is left of a combine once the rows are back; f64 throughout.
!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
%route, %back, %gate = "test.op"() : () -> (!route, tensor<?x3xf64, #moe.sent<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>)
%out = moe.weighted_sum %back, %gate by %route : tensor<?x3xf64, #moe.sent<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>, !route -> tensor<?x3xf64, #moe.tokens<3 rows>>

// CHECK:      %route, %back, %gate = "test.op"() : () -> (!moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<?x3xf64, #moe.sent<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>)
// CHECK-NEXT: %out = moe.weighted_sum %back, %gate by %route : tensor<?x3xf64, #moe.sent<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x3xf64, #moe.tokens<3 rows>>

// GENERIC:      %route, %back, %gate = "test.op"() : () -> (!moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<?x3xf64, #moe.sent<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>)
// GENERIC-NEXT: %out = "moe.weighted_sum"(%back, %gate, %route) : (tensor<?x3xf64, #moe.sent<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>) -> tensor<?x3xf64, #moe.tokens<3 rows>>
