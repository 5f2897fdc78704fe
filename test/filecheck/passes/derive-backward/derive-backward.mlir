// RUN: hpmoe-opt %s -p derive-backward --split-input-file | filecheck %s

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!h = tensor<?x32xbf16, #moe.grouped<20 rows>>
!a = tensor<?x16xbf16, #moe.grouped<20 rows>>
!w13 = tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>
!w2 = tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>

// A layer: what gradients need is saved, and no product is done again. Each gradient that another
// waits for comes before that of the weights.
func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h
  %a = moe.swiglu %h : !h -> !a
  %y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}

// CHECK:      func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>> {moe.role = #moe.role<saved>}, tensor<?x32xbf16, #moe.grouped<20 rows>> {moe.role = #moe.role<saved>}, tensor<?x16xbf16, #moe.grouped<20 rows>> {moe.role = #moe.role<saved>}, tensor<?x48xbf16, #moe.sent<14 rows>> {moe.role = #moe.role<saved>}) {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %back = moe.collect %y by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// CHECK-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT:   func.return %out, %recv, %h, %a, %back : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.sent<14 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @layer_backward(%dout: tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.role = #moe.role<gradient of result 0>}, %ids: tensor<?x2xi32, #moe.tokens<7 rows>> {moe.role = #moe.role<argument 1>}, %gate: tensor<?x2xf32, #moe.tokens<7 rows>> {moe.role = #moe.role<argument 2>}, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>> {moe.role = #moe.role<argument 3>}, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>> {moe.role = #moe.role<argument 4>}, %recv: tensor<?x48xbf16, #moe.grouped<20 rows>> {moe.role = #moe.role<result 1>}, %h: tensor<?x32xbf16, #moe.grouped<20 rows>> {moe.role = #moe.role<result 2>}, %a: tensor<?x16xbf16, #moe.grouped<20 rows>> {moe.role = #moe.role<result 3>}, %back: tensor<?x48xbf16, #moe.sent<14 rows>> {moe.role = #moe.role<result 4>}) -> (tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<?x2xf32, #moe.tokens<7 rows>> {moe.role = #moe.role<gradient of argument 2>}, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>> {moe.role = #moe.role<gradient of argument 3>}, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>> {moe.role = #moe.role<gradient of argument 4>}) attributes {moe.forward = @layer} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>
// CHECK-NEXT:   %da = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %dw2 = moe.grouped_matmul %a, %dy by %route {transpose_lhs} : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// CHECK-NEXT:   %dh = moe.swiglu_grad %h, %da : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %drecv = moe.grouped_matmul %dh, %w13 by %route {transpose_rhs} : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %dw13 = moe.grouped_matmul %recv, %dh by %route {transpose_lhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>
// CHECK-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// CHECK-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT:   func.return %dx, %dgate, %dw13, %dw2 : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// CHECK-NEXT: }
