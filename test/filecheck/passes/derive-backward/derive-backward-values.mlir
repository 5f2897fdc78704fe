// RUN: hpmoe-opt %s -p 'derive-backward{accumulate=true}' --split-input-file | filecheck %s

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!ids = tensor<?x1xi32, #moe.tokens<3 rows>>
!x = tensor<?x4xbf16, #moe.tokens<3 rows>>
!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>
!w = tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>

// Rows that are used twice have the sum of two gradients; so do weights, of which the second
// product adds to the first.
func.func @twice(%x: !x, %ids: !ids, %w: !w) -> !rows {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  %y = moe.grouped_matmul %recv, %w by %route : !rows, !w, !route -> !rows
  %z = moe.grouped_matmul %y, %w by %route : !rows, !w, !route -> !rows
  %sum = moe.add %y, %z : !rows
  func.return %sum : !rows
}

// CHECK:      func.func @twice(%x: tensor<?x4xbf16, #moe.tokens<3 rows>>, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %w: tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>) -> (tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<saved>}, tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<saved>}) {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x4xbf16, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %y = moe.grouped_matmul %recv, %w by %route : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %z = moe.grouped_matmul %y, %w by %route : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %sum = moe.add %y, %z : tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   func.return %sum, %recv, %y : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @twice_backward(%dsum: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %ids: tensor<?x1xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %w: tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<argument 2>}, %recv: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<result 1>}, %y: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<result 2>}, %dw_acc: tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<accumulator of argument 2>}) -> (tensor<?x4xbf16, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<gradient of argument 2>}) attributes {moe.forward = @twice} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT:   %dy = moe.grouped_matmul %dsum, %w by %route {transpose_rhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %dw = moe.grouped_matmul %y, %dsum into %dw_acc by %route {transpose_lhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> -> tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>
// CHECK-NEXT:   %dy_1 = moe.add %dsum, %dy : tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %drecv = moe.grouped_matmul %dy_1, %w by %route {transpose_rhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %dw_1 = moe.grouped_matmul %recv, %dy_1 into %dw by %route {transpose_lhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> -> tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>
// CHECK-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.sent<3 rows>>
// CHECK-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x4xbf16, #moe.sent<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %dx, %dw_1 : tensor<?x4xbf16, #moe.tokens<3 rows>>, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>
// CHECK-NEXT: }

// -----

// One value as both terms: the same gradient twice.
func.func @doubled(%x: tensor<?x4xf16, #moe.tokens<3 rows>>) -> tensor<?x4xf16, #moe.tokens<3 rows>> {
  %two = moe.add %x, %x : tensor<?x4xf16, #moe.tokens<3 rows>>
  func.return %two : tensor<?x4xf16, #moe.tokens<3 rows>>
}

// CHECK:      func.func @doubled(%x: tensor<?x4xf16, #moe.tokens<3 rows>>) -> tensor<?x4xf16, #moe.tokens<3 rows>> {
// CHECK-NEXT:   %two = moe.add %x, %x : tensor<?x4xf16, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %two : tensor<?x4xf16, #moe.tokens<3 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @doubled_backward(%dtwo: tensor<?x4xf16, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of result 0>}) -> (tensor<?x4xf16, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of argument 0>}) attributes {moe.forward = @doubled} {
// CHECK-NEXT:   %dx = moe.add %dtwo, %dtwo : tensor<?x4xf16, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %dx : tensor<?x4xf16, #moe.tokens<3 rows>>
// CHECK-NEXT: }

// -----

!h = tensor<?x6xf32, #moe.grouped<3 rows>>
!a = tensor<?x3xf32, #moe.grouped<3 rows>>

// A result that is also used has two gradients, one of them an argument; it is returned once, and
// saved as it is.
func.func @result(%a: !h, %b: !h) -> (!h, !a) {
  %h = moe.add %a, %b : !h
  %act = moe.swiglu %h : !h -> !a
  func.return %h, %act : !h, !a
}

// CHECK:      func.func @result(%a: tensor<?x6xf32, #moe.grouped<3 rows>>, %b: tensor<?x6xf32, #moe.grouped<3 rows>>) -> (tensor<?x6xf32, #moe.grouped<3 rows>>, tensor<?x3xf32, #moe.grouped<3 rows>>) {
// CHECK-NEXT:   %h = moe.add %a, %b : tensor<?x6xf32, #moe.grouped<3 rows>>
// CHECK-NEXT:   %act = moe.swiglu %h : tensor<?x6xf32, #moe.grouped<3 rows>> -> tensor<?x3xf32, #moe.grouped<3 rows>>
// CHECK-NEXT:   func.return %h, %act : tensor<?x6xf32, #moe.grouped<3 rows>>, tensor<?x3xf32, #moe.grouped<3 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @result_backward(%dh: tensor<?x6xf32, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %dact: tensor<?x3xf32, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 1>}, %h: tensor<?x6xf32, #moe.grouped<3 rows>> {moe.role = #moe.role<result 0>}) -> (tensor<?x6xf32, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<?x6xf32, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of argument 1>}) attributes {moe.forward = @result} {
// CHECK-NEXT:   %dh_1 = moe.swiglu_grad %h, %dact : tensor<?x6xf32, #moe.grouped<3 rows>>, tensor<?x3xf32, #moe.grouped<3 rows>> -> tensor<?x6xf32, #moe.grouped<3 rows>>
// CHECK-NEXT:   %dh_2 = moe.add %dh, %dh_1 : tensor<?x6xf32, #moe.grouped<3 rows>>
// CHECK-NEXT:   func.return %dh_2, %dh_2 : tensor<?x6xf32, #moe.grouped<3 rows>>, tensor<?x6xf32, #moe.grouped<3 rows>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>
!w = tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>

// What no result depends on has no gradient, and an operation without a rule does no harm there.
func.func @unused(%rows: !rows, %w: !w, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %other: !w) -> !rows {
  %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !route
  %0 = "test.op"(%other) : (!w) -> !w
  %y = moe.grouped_matmul %rows, %w by %route : !rows, !w, !route -> !rows
  func.return %y : !rows
}

// CHECK:      func.func @unused(%rows: tensor<?x4xbf16, #moe.grouped<3 rows>>, %w: tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %other: tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>) -> tensor<?x4xbf16, #moe.grouped<3 rows>> {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT:   %0 = "test.op"(%other) : (tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>) -> tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>
// CHECK-NEXT:   %y = moe.grouped_matmul %rows, %w by %route : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   func.return %y : tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @unused_backward(%dy: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %rows: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<argument 0>}, %w: tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<argument 1>}, %ids: tensor<?x1xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 2>}, %dw_acc: tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<accumulator of argument 1>}) -> (tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<gradient of argument 1>}) attributes {moe.forward = @unused} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// CHECK-NEXT:   %drows = moe.grouped_matmul %dy, %w by %route {transpose_rhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// CHECK-NEXT:   %dw = moe.grouped_matmul %rows, %dy into %dw_acc by %route {transpose_lhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>> -> tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>
// CHECK-NEXT:   func.return %drows, %dw : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>
// CHECK-NEXT: }
