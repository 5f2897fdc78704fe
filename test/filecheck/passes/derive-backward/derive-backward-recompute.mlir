// RUN: hpmoe-opt %s -p 'derive-backward{recompute=swiglu}' --split-input-file | filecheck %s --check-prefix=SWIGLU
// RUN: hpmoe-opt %s -p 'derive-backward{recompute=up}' --split-input-file | filecheck %s --check-prefix=UP
// RUN: hpmoe-opt %s -p 'derive-backward{recompute=dispatch}' --split-input-file | filecheck %s --check-prefix=DISPATCH
// RUN: hpmoe-opt %s -p 'derive-backward{recompute=swiglu,up,dispatch}' --split-input-file | filecheck %s --check-prefix=ALL

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!h = tensor<?x32xbf16, #moe.grouped<20 rows>>
!a = tensor<?x16xbf16, #moe.grouped<20 rows>>
!w13 = tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>
!w2 = tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>

// Recomputed values are not saved: they come once the first gradients are on their way. Rows are sent
// again only where `dispatch` says so.
func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h
  %a = moe.swiglu %h : !h -> !a
  %y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}

// SWIGLU:      func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>> {moe.saved = "recv"}, tensor<?x32xbf16, #moe.grouped<20 rows>> {moe.saved = "h"}, tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) {
// SWIGLU-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// SWIGLU-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %back = moe.collect %y by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// SWIGLU-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// SWIGLU-NEXT:   func.return %out, %recv, %h, %back : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.sent<14 rows>>
// SWIGLU-NEXT: }
// SWIGLU-NEXT: func.func @layer_backward(%dout: tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "out"}, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, %recv: tensor<?x48xbf16, #moe.grouped<20 rows>> {moe.saved = "recv"}, %h: tensor<?x32xbf16, #moe.grouped<20 rows>> {moe.saved = "h"}, %back: tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) -> (tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "x"}, tensor<?x2xf32, #moe.tokens<7 rows>> {moe.gradient = "gate"}, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w13"}, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w2"}) {
// SWIGLU-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// SWIGLU-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>
// SWIGLU-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %da = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %dw2 = moe.grouped_matmul %a, %dy by %route {transpose_lhs} : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// SWIGLU-NEXT:   %dh = moe.swiglu_grad %h, %da : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %drecv = moe.grouped_matmul %dh, %w13 by %route {transpose_rhs} : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// SWIGLU-NEXT:   %dw13 = moe.grouped_matmul %recv, %dh by %route {transpose_lhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>
// SWIGLU-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// SWIGLU-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// SWIGLU-NEXT:   func.return %dx, %dgate, %dw13, %dw2 : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// SWIGLU-NEXT: }

// UP:      func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>> {moe.saved = "recv"}, tensor<?x16xbf16, #moe.grouped<20 rows>> {moe.saved = "a"}, tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) {
// UP-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// UP-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %back = moe.collect %y by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// UP-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// UP-NEXT:   func.return %out, %recv, %a, %back : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.sent<14 rows>>
// UP-NEXT: }
// UP-NEXT: func.func @layer_backward(%dout: tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "out"}, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, %recv: tensor<?x48xbf16, #moe.grouped<20 rows>> {moe.saved = "recv"}, %a: tensor<?x16xbf16, #moe.grouped<20 rows>> {moe.saved = "a"}, %back: tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) -> (tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "x"}, tensor<?x2xf32, #moe.tokens<7 rows>> {moe.gradient = "gate"}, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w13"}, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w2"}) {
// UP-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// UP-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>
// UP-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %da = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %dw2 = moe.grouped_matmul %a, %dy by %route {transpose_lhs} : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// UP-NEXT:   %dh = moe.swiglu_grad %h, %da : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %drecv = moe.grouped_matmul %dh, %w13 by %route {transpose_rhs} : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// UP-NEXT:   %dw13 = moe.grouped_matmul %recv, %dh by %route {transpose_lhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>
// UP-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// UP-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// UP-NEXT:   func.return %dx, %dgate, %dw13, %dw2 : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// UP-NEXT: }

// DISPATCH:      func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>> {moe.saved = "h"}, tensor<?x16xbf16, #moe.grouped<20 rows>> {moe.saved = "a"}, tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) {
// DISPATCH-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// DISPATCH-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %back = moe.collect %y by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// DISPATCH-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// DISPATCH-NEXT:   func.return %out, %h, %a, %back : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.sent<14 rows>>
// DISPATCH-NEXT: }
// DISPATCH-NEXT: func.func @layer_backward(%dout: tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "out"}, %x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, %h: tensor<?x32xbf16, #moe.grouped<20 rows>> {moe.saved = "h"}, %a: tensor<?x16xbf16, #moe.grouped<20 rows>> {moe.saved = "a"}, %back: tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) -> (tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "x"}, tensor<?x2xf32, #moe.tokens<7 rows>> {moe.gradient = "gate"}, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w13"}, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w2"}) {
// DISPATCH-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// DISPATCH-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>
// DISPATCH-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %da = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %dw2 = moe.grouped_matmul %a, %dy by %route {transpose_lhs} : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// DISPATCH-NEXT:   %dh = moe.swiglu_grad %h, %da : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %drecv = moe.grouped_matmul %dh, %w13 by %route {transpose_rhs} : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// DISPATCH-NEXT:   %dw13 = moe.grouped_matmul %recv, %dh by %route {transpose_lhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>
// DISPATCH-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// DISPATCH-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// DISPATCH-NEXT:   func.return %dx, %dgate, %dw13, %dw2 : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// DISPATCH-NEXT: }

// ALL:      func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) {
// ALL-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// ALL-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %back = moe.collect %y by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// ALL-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// ALL-NEXT:   func.return %out, %back : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x48xbf16, #moe.sent<14 rows>>
// ALL-NEXT: }
// ALL-NEXT: func.func @layer_backward(%dout: tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "out"}, %x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, %back: tensor<?x48xbf16, #moe.sent<14 rows>> {moe.saved = "back"}) -> (tensor<?x48xbf16, #moe.tokens<7 rows>> {moe.gradient = "x"}, tensor<?x2xf32, #moe.tokens<7 rows>> {moe.gradient = "gate"}, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w13"}, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>> {moe.gradient = "w2"}) {
// ALL-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// ALL-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>
// ALL-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %da = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %dw2 = moe.grouped_matmul %a, %dy by %route {transpose_lhs} : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// ALL-NEXT:   %dh = moe.swiglu_grad %h, %da : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<?x16xbf16, #moe.grouped<20 rows>> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %drecv = moe.grouped_matmul %dh, %w13 by %route {transpose_rhs} : tensor<?x32xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// ALL-NEXT:   %dw13 = moe.grouped_matmul %recv, %dh by %route {transpose_lhs} : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<?x32xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>
// ALL-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.sent<14 rows>>
// ALL-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// ALL-NEXT:   func.return %dx, %dgate, %dw13, %dw2 : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, tensor<3x48x32xf32, #moe.experts<6 over 2 ranks>>, tensor<3x16x48xf32, #moe.experts<6 over 2 ranks>>
// ALL-NEXT: }
