// RUN: hpmoe-opt %s -p convert-moe-to-comm --split-input-file | filecheck %s

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!sent = tensor<?x48xbf16, #moe.sent<14 rows>>

// Gradients go to the experts by weighted puts; rows come back into a window of each collect.
func.func @gradients(%dout: !x, %gate: !gate, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>) -> (!x, !gate) {
  %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !route
  %dy = moe.dispatch_weighted %dout, %gate by %route : !x, !gate, !route -> !rows
  %dcopies = moe.collect %dy by %route : !rows, !route -> !sent
  %dx = moe.sum_copies %dcopies by %route : !sent, !route -> !x
  %again = moe.collect %dy by %route : !rows, !route -> !sent
  %dgate = moe.gate_gradient %again, %dout by %route : !sent, !x, !route -> !gate
  func.return %dx, %dgate : !x, !gate
}

// Windows have their names in a function of its own.
func.func @dispatch(%x: !x, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>) -> !rows {
  %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  func.return %recv : !rows
}

// CHECK:      func.func @gradients(%dout: tensor<?x48xbf16, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>) -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>) {
// CHECK-NEXT:   %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %own_counts = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> tensor<2x6xi32>
// CHECK-NEXT:   %announced = comm.exchange %own_counts into %counts : tensor<2x6xi32>, !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %all_counts = comm.wait %counts after %announced : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %route = comm.route %ids, %all_counts : tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<2x2x6xi32> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %recv_window = comm.window "recv" : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT:   %sent = comm.put dispatch %dout weighted %gate into %recv_window by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x2xf32, #moe.tokens<7 rows>>
// CHECK-NEXT:   %dy = comm.wait %recv_window after %sent : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT:   %back_window = comm.window "back" : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT:   %returned = comm.put return %dy into %back_window by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %dcopies = comm.wait %back_window after %returned : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT:   %back_1_window = comm.window "back_1" : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT:   %returned_1 = comm.put return %dy into %back_1_window by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %again = comm.wait %back_1_window after %returned_1 : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT:   %dgate = moe.gate_gradient %again, %dout by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x2xf32, #moe.tokens<7 rows>>
// CHECK-NEXT:   func.return %dx, %dgate : tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @dispatch(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>) -> tensor<?x48xbf16, #moe.grouped<20 rows>> {
// CHECK-NEXT:   %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %own_counts = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> tensor<2x6xi32>
// CHECK-NEXT:   %announced = comm.exchange %own_counts into %counts : tensor<2x6xi32>, !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %all_counts = comm.wait %counts after %announced : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %route = comm.route %ids, %all_counts : tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<2x2x6xi32> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %recv_window = comm.window "recv" : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT:   %sent = comm.put dispatch %x into %recv_window by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %recv = comm.wait %recv_window after %sent : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT:   func.return %recv : tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT: }
