!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<20 rows>>
!h = tensor<?x32xbf16, #moe.grouped<20 rows>>
!a = tensor<?x16xbf16, #moe.grouped<20 rows>>
!w13 = tensor<3x48x32xbf16, #moe.experts<6 over 2 ranks>>
!w2 = tensor<3x16x48xbf16, #moe.experts<6 over 2 ranks>>
func.func @layer(%x: !x, %ids: !ids, %gate: !gate, %w13: !w13, %w2: !w2) -> !x {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.grouped_matmul %recv, %w13 by %route : !rows, !w13, !route -> !h
  %a = moe.swiglu %h : !h -> !a
  %y = moe.grouped_matmul %a, %w2 by %route : !a, !w2, !route -> !rows
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}
