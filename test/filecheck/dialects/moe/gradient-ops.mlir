// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!sent = tensor<?x48xbf16, #moe.sent<14 rows>>

// Gradients go to the experts weighted, and come back to be summed.
%route, %dout, %gate = "test.op"() : () -> (!route, !x, !gate)
%dy = moe.dispatch_weighted %dout, %gate by %route : !x, !gate, !route -> !rows
%back = moe.collect %dy by %route : !rows, !route -> !sent
%dx = moe.sum_copies %back by %route : !sent, !route -> !x
%dgate = moe.gate_gradient %back, %dout by %route : !sent, !x, !route -> !gate

// CHECK:      %route, %dout, %gate = "test.op"() : () -> (!moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT: %back = moe.collect %dy by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// CHECK-NEXT: %dx = moe.sum_copies %back by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT: %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   %route, %dout, %gate = "test.op"() : () -> (!moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// GENERIC-NEXT:   %dy = "moe.dispatch_weighted"(%dout, %gate, %route) : (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// GENERIC-NEXT:   %back = "moe.collect"(%dy, %route) : (tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<?x48xbf16, #moe.sent<14 rows>>
// GENERIC-NEXT:   %dx = "moe.sum_copies"(%back, %route) : (tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// GENERIC-NEXT:   %dgate = "moe.gate_gradient"(%back, %dout, %route) : (tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> tensor<?x2xf32, #moe.tokens<7 rows>>
// GENERIC-NEXT: }) : () -> ()

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!x = tensor<?x5xf64, #moe.tokens<3 rows>>
!gate = tensor<?x1xf64, #moe.tokens<3 rows>>

// Gate weights and their gradients are f64 where the rows are.
%route, %dout, %gate = "test.op"() : () -> (!route, !x, !gate)
%dy = moe.dispatch_weighted %dout, %gate by %route : !x, !gate, !route -> tensor<?x5xf64, #moe.grouped<3 rows>>
%back = moe.collect %dy by %route : tensor<?x5xf64, #moe.grouped<3 rows>>, !route -> tensor<?x5xf64, #moe.sent<3 rows>>
%dgate = moe.gate_gradient %back, %dout by %route : tensor<?x5xf64, #moe.sent<3 rows>>, !x, !route -> !gate

// CHECK:      %route, %dout, %gate = "test.op"() : () -> (!moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>)
// CHECK-NEXT: %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x5xf64, #moe.grouped<3 rows>>
// CHECK-NEXT: %back = moe.collect %dy by %route : tensor<?x5xf64, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x5xf64, #moe.sent<3 rows>>
// CHECK-NEXT: %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x5xf64, #moe.sent<3 rows>>, tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x1xf64, #moe.tokens<3 rows>>

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   %route, %dout, %gate = "test.op"() : () -> (!moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>)
// GENERIC-NEXT:   %dy = "moe.dispatch_weighted"(%dout, %gate, %route) : (tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x1xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>) -> tensor<?x5xf64, #moe.grouped<3 rows>>
// GENERIC-NEXT:   %back = "moe.collect"(%dy, %route) : (tensor<?x5xf64, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>) -> tensor<?x5xf64, #moe.sent<3 rows>>
// GENERIC-NEXT:   %dgate = "moe.gate_gradient"(%back, %dout, %route) : (tensor<?x5xf64, #moe.sent<3 rows>>, tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>) -> tensor<?x1xf64, #moe.tokens<3 rows>>
// GENERIC-NEXT: }) : () -> ()

// -----

// The gradient of an activation is as wide as what the activation was computed of.
%h, %da = "test.op"() : () -> (tensor<?x10xf16, #moe.grouped<20 rows>>, tensor<?x5xf16, #moe.grouped<20 rows>>)
%dh = moe.swiglu_grad %h, %da : tensor<?x10xf16, #moe.grouped<20 rows>>, tensor<?x5xf16, #moe.grouped<20 rows>> -> tensor<?x10xf16, #moe.grouped<20 rows>>

// CHECK:      %h, %da = "test.op"() : () -> (tensor<?x10xf16, #moe.grouped<20 rows>>, tensor<?x5xf16, #moe.grouped<20 rows>>)
// CHECK-NEXT: %dh = moe.swiglu_grad %h, %da : tensor<?x10xf16, #moe.grouped<20 rows>>, tensor<?x5xf16, #moe.grouped<20 rows>> -> tensor<?x10xf16, #moe.grouped<20 rows>>

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   %h, %da = "test.op"() : () -> (tensor<?x10xf16, #moe.grouped<20 rows>>, tensor<?x5xf16, #moe.grouped<20 rows>>)
// GENERIC-NEXT:   %dh = "moe.swiglu_grad"(%h, %da) : (tensor<?x10xf16, #moe.grouped<20 rows>>, tensor<?x5xf16, #moe.grouped<20 rows>>) -> tensor<?x10xf16, #moe.grouped<20 rows>>
// GENERIC-NEXT: }) : () -> ()

// -----

!w = tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// Gradients of a value that is used twice are added, be it rows or weights.
%a, %b, %v, %w = "test.op"() : () -> (tensor<?x3xbf16, #moe.tokens<7 rows>>, tensor<?x3xbf16, #moe.tokens<7 rows>>, !w, !w)
%0 = moe.add %a, %b : tensor<?x3xbf16, #moe.tokens<7 rows>>
%1 = moe.add %v, %w : !w

// CHECK:      %a, %b, %v, %w = "test.op"() : () -> (tensor<?x3xbf16, #moe.tokens<7 rows>>, tensor<?x3xbf16, #moe.tokens<7 rows>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>)
// CHECK-NEXT: %0 = moe.add %a, %b : tensor<?x3xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT: %1 = moe.add %v, %w : tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   %a, %b, %v, %w = "test.op"() : () -> (tensor<?x3xbf16, #moe.tokens<7 rows>>, tensor<?x3xbf16, #moe.tokens<7 rows>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>)
// GENERIC-NEXT:   %0 = "moe.add"(%a, %b) : (tensor<?x3xbf16, #moe.tokens<7 rows>>, tensor<?x3xbf16, #moe.tokens<7 rows>>) -> tensor<?x3xbf16, #moe.tokens<7 rows>>
// GENERIC-NEXT:   %1 = "moe.add"(%v, %w) : (tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>) -> tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>
// GENERIC-NEXT: }) : () -> ()

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!a = tensor<?x48xf16, #moe.grouped<20 rows>>
!b = tensor<?x16xf16, #moe.grouped<20 rows>>
!w = tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// A gradient of weights is added to those of earlier batches, in f32.
%route, %a, %b, %sum = "test.op"() : () -> (!route, !a, !b, !w)
%0 = moe.grouped_matmul %a, %b into %sum by %route {transpose_lhs} : !a, !b, !route, !w -> !w

// CHECK:      %route, %a, %b, %sum = "test.op"() : () -> (!moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>)
// CHECK-NEXT: %0 = moe.grouped_matmul %a, %b into %sum by %route {transpose_lhs} : tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>> -> tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   %route, %a, %b, %sum = "test.op"() : () -> (!moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>)
// GENERIC-NEXT:   %0 = "moe.grouped_matmul"(%a, %b, %route, %sum) <{transpose_lhs}> : (tensor<?x48xf16, #moe.grouped<20 rows>>, tensor<?x16xf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>) -> tensor<3x48x16xf32, #moe.experts<6 over 2 ranks>>
// GENERIC-NEXT: }) : () -> ()
