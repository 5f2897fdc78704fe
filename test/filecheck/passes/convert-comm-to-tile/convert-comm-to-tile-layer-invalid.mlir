// RUN: REJECTED hpmoe-opt %s --split-input-file -p convert-moe-to-comm,convert-comm-to-tile | filecheck %s --match-full-lines

// The kernels compute in bf16 and f16.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!x = tensor<?x48xf32, #moe.tokens<7 rows>>
!rows = tensor<?x48xf32, #moe.grouped<28 rows>>
func.func @f(%x: !x, %ids: !ids, %gate: tensor<?x2xf32, #moe.tokens<7 rows>>) -> !x {
  %route = moe.route %ids : !ids -> !route
  // CHECK: convert-comm-to-tile-layer-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: comm.wait: the kernels take bf16 or f16, found f32
  %rows = moe.dispatch %x by %route : !x, !route -> !rows
  %out = moe.combine %rows, %gate by %route : !rows, tensor<?x2xf32, #moe.tokens<7 rows>>, !route -> !x
  func.return %out : !x
}

// -----

// Widths that are no multiple of 16: of the rows, then of the result.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!x = tensor<?x40xbf16, #moe.tokens<7 rows>>
!rows = tensor<?x40xbf16, #moe.grouped<28 rows>>
!w = tensor<2x40x32xbf16, #moe.experts<4 over 2 ranks>>
!h = tensor<?x32xbf16, #moe.grouped<28 rows>>
func.func @f(%x: !x, %ids: !ids, %w: !w) -> !h {
  %route = moe.route %ids : !ids -> !route
  %rows = moe.dispatch %x by %route : !x, !route -> !rows
  // CHECK-NEXT: convert-comm-to-tile-layer-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: moe.grouped_matmul: the width of the rows must be a multiple of 16, found 40
  %h = moe.grouped_matmul %rows, %w by %route : !rows, !w, !route -> !h
  func.return %h : !h
}

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<28 rows>>
!w = tensor<2x48x24xbf16, #moe.experts<4 over 2 ranks>>
!h = tensor<?x24xbf16, #moe.grouped<28 rows>>
func.func @f(%x: !x, %ids: !ids, %w: !w) -> !h {
  %route = moe.route %ids : !ids -> !route
  %rows = moe.dispatch %x by %route : !x, !route -> !rows
  // CHECK-NEXT: convert-comm-to-tile-layer-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: moe.grouped_matmul: the width of the result must be a multiple of 16, found 24
  %h = moe.grouped_matmul %rows, %w by %route : !rows, !w, !route -> !h
  func.return %h : !h
}

// -----

// One buffer for two results.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!rows = tensor<?x48xbf16, #moe.grouped<28 rows>>
!h = tensor<?x24xbf16, #moe.grouped<28 rows>>
// CHECK-NEXT: convert-comm-to-tile-layer-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f returns value 1 twice
func.func @f(%x: !x, %ids: !ids) -> (!h, !h) {
  %route = moe.route %ids : !ids -> !route
  %rows = moe.dispatch %x by %route : !x, !route -> !rows
  %h = moe.swiglu %rows : !rows -> !h
  func.return %h, %h : !h, !h
}

// -----

// Gate weights are added up by no kernel.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
func.func @f(%ids: !ids, %a: !gate, %b: !gate) -> !gate {
  %route = moe.route %ids : !ids -> !route
  // CHECK-NEXT: convert-comm-to-tile-layer-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: moe.add: no kernel is registered for sums of f32
  %sum = moe.add %a, %b : !gate
  func.return %sum : !gate
}
