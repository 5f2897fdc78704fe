// RUN: hpmoe-opt %s -p convert-moe-to-comm --split-input-file | filecheck %s

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!h = tensor<?x32xbf16, #moe.grouped<20 rows>>
!a = tensor<?x16xbf16, #moe.grouped<20 rows>>
!w13 = tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>
!w2 = tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>

// A layer: counts first, then rows to the experts, then rows back. Compute stays as it is.
func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h
  %a = moe.swiglu %h : !h -> !a
  %y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}

// CHECK:      func.func @layer(%x: tensor<?x48xbf16, #moe.tokens<7 rows>>, %ids: tensor<?x2xi32, #moe.tokens<7 rows>>, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>, %w13: tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, %w2: tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>) -> tensor<?x48xbf16, #moe.tokens<7 rows>> {
// CHECK-NEXT:   %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %own_counts = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> tensor<2x6xi32>
// CHECK-NEXT:   %announced = comm.exchange %own_counts into %counts : tensor<2x6xi32>, !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %all_counts = comm.wait %counts after %announced : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT:   %route = comm.route %ids, %all_counts : tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<2x2x6xi32> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %recv_window = comm.window "recv" : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT:   %sent = comm.put dispatch %x into %recv_window by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %recv = comm.wait %recv_window after %sent : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT:   %h = moe.grouped_matmul %recv, %w13 by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x32xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %a = moe.swiglu %h : tensor<?x32xbf16, #moe.grouped<20 rows>> -> tensor<?x16xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %y = moe.grouped_matmul %a, %w2 by %route : tensor<?x16xbf16, #moe.grouped<20 rows>>, tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// CHECK-NEXT:   %back_window = comm.window "back" : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT:   %returned = comm.put return %y into %back_window by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   %back = comm.wait %back_window after %returned : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x48xbf16, #moe.sent<14 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows> -> tensor<?x48xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT:   func.return %out : tensor<?x48xbf16, #moe.tokens<7 rows>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!ids = tensor<?x1xi32, #moe.tokens<3 rows>>
!x = tensor<?x5xf32, #moe.tokens<3 rows>>
!y = tensor<?x4xf16, #moe.tokens<3 rows>>

// One rank puts into its own windows; each dispatch has a window of its own, and so has each route.
%ids, %x, %y = "test.op"() : () -> (!ids, !x, !y)
%route = moe.route %ids : !ids -> !route
%again = moe.route %ids : !ids -> !route
%a = moe.dispatch %x by %route : !x, !route -> tensor<?x5xf32, #moe.grouped<3 rows>>
%b = moe.dispatch %y by %again : !y, !route -> tensor<?x4xf16, #moe.grouped<3 rows>>

// CHECK:      %ids, %x, %y = "test.op"() : () -> (tensor<?x1xi32, #moe.tokens<3 rows>>, tensor<?x5xf32, #moe.tokens<3 rows>>, tensor<?x4xf16, #moe.tokens<3 rows>>)
// CHECK-NEXT: %counts = comm.window "counts" per_launch : !comm.window<tensor<1x2x2xi32>>
// CHECK-NEXT: %own_counts = comm.count_tokens %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> tensor<2x2xi32>
// CHECK-NEXT: %announced = comm.exchange %own_counts into %counts : tensor<2x2xi32>, !comm.window<tensor<1x2x2xi32>>
// CHECK-NEXT: %all_counts = comm.wait %counts after %announced : !comm.window<tensor<1x2x2xi32>>
// CHECK-NEXT: %route = comm.route %ids, %all_counts : tensor<?x1xi32, #moe.tokens<3 rows>>, tensor<1x2x2xi32> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT: %counts_1 = comm.window "counts_1" per_launch : !comm.window<tensor<1x2x2xi32>>
// CHECK-NEXT: %own_counts_1 = comm.count_tokens %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> tensor<2x2xi32>
// CHECK-NEXT: %announced_1 = comm.exchange %own_counts_1 into %counts_1 : tensor<2x2xi32>, !comm.window<tensor<1x2x2xi32>>
// CHECK-NEXT: %all_counts_1 = comm.wait %counts_1 after %announced_1 : !comm.window<tensor<1x2x2xi32>>
// CHECK-NEXT: %again = comm.route %ids, %all_counts_1 : tensor<?x1xi32, #moe.tokens<3 rows>>, tensor<1x2x2xi32> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT: %recv_window = comm.window "recv" : !comm.window<tensor<?x5xf32, #moe.grouped<3 rows>>>
// CHECK-NEXT: %sent = comm.put dispatch %x into %recv_window by %route : tensor<?x5xf32, #moe.tokens<3 rows>>, !comm.window<tensor<?x5xf32, #moe.grouped<3 rows>>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT: %a = comm.wait %recv_window after %sent : !comm.window<tensor<?x5xf32, #moe.grouped<3 rows>>>
// CHECK-NEXT: %recv_1_window = comm.window "recv_1" : !comm.window<tensor<?x4xf16, #moe.grouped<3 rows>>>
// CHECK-NEXT: %sent_1 = comm.put dispatch %y into %recv_1_window by %again : tensor<?x4xf16, #moe.tokens<3 rows>>, !comm.window<tensor<?x4xf16, #moe.grouped<3 rows>>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT: %b = comm.wait %recv_1_window after %sent_1 : !comm.window<tensor<?x4xf16, #moe.grouped<3 rows>>>

// -----

// Nothing to be sent: computation on received rows is at both levels.
%h = "test.op"() : () -> tensor<?x6xf32, #moe.grouped<3 rows>>
%a = moe.swiglu %h : tensor<?x6xf32, #moe.grouped<3 rows>> -> tensor<?x3xf32, #moe.grouped<3 rows>>

// CHECK:      %h = "test.op"() : () -> tensor<?x6xf32, #moe.grouped<3 rows>>
// CHECK-NEXT: %a = moe.swiglu %h : tensor<?x6xf32, #moe.grouped<3 rows>> -> tensor<?x3xf32, #moe.grouped<3 rows>>
