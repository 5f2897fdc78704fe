// RUN: REJECTED hpmoe-opt %s --split-input-file -p 'convert-moe-to-comm,convert-comm-to-tile' | filecheck %s --match-full-lines

// What an argument held is used after it was added to.
!route = !moe.route<7 tokens, top 1, 2 experts over 1 ranks, 7 rows>
!ids = tensor<?x1xi32, #moe.tokens<7 rows>>
!rows = tensor<?x32xbf16, #moe.grouped<7 rows>>
!sum = tensor<2x32x32xf32, #moe.experts<2 over 1 ranks>>
func.func @f(%ids: !ids, %a: !rows, %b: !rows, %acc: !sum) -> (!sum, !sum) {
  %route = moe.route %ids : !ids -> !route
  // CHECK: convert-comm-to-tile-sums-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: moe.grouped_matmul: @acc is added into: expected no other use of what was in it
  %one = moe.grouped_matmul %a, %a into %acc by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  %two = moe.grouped_matmul %b, %b into %acc by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  func.return %one, %two : !sum, !sum
}

// -----

// An earlier sum is a result too.
!route = !moe.route<7 tokens, top 1, 2 experts over 1 ranks, 7 rows>
!ids = tensor<?x1xi32, #moe.tokens<7 rows>>
!rows = tensor<?x32xbf16, #moe.grouped<7 rows>>
!sum = tensor<2x32x32xf32, #moe.experts<2 over 1 ranks>>
func.func @f(%ids: !ids, %a: !rows, %b: !rows) -> (!sum, !sum) {
  %route = moe.route %ids : !ids -> !route
  %one = moe.grouped_matmul %a, %a by %route {transpose_lhs} : !rows, !rows, !route -> !sum
  // CHECK-NEXT: convert-comm-to-tile-sums-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: moe.grouped_matmul: @one is added into: expected no other use of what was in it
  %two = moe.grouped_matmul %b, %b into %one by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  func.return %one, %two : !sum, !sum
}

// -----

// An argument that is added into is changed, so the caller must get the sum.
!route = !moe.route<7 tokens, top 1, 2 experts over 1 ranks, 7 rows>
!ids = tensor<?x1xi32, #moe.tokens<7 rows>>
!rows = tensor<?x32xbf16, #moe.grouped<7 rows>>
!sum = tensor<2x32x32xf32, #moe.experts<2 over 1 ranks>>
func.func @f(%ids: !ids, %a: !rows, %acc: !sum) {
  %route = moe.route %ids : !ids -> !route
  // CHECK-NEXT: convert-comm-to-tile-sums-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: moe.grouped_matmul: @acc is added into: expected the sum to be a result of the function, as the buffer is an argument
  %one = moe.grouped_matmul %a, %a into %acc by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  func.return
}
