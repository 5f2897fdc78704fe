// RUN: REJECTED hpmoe-opt %s --split-input-file -p derive-backward | filecheck %s --match-full-lines

!w = tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>
!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>

// An operation without a rule that a gradient would have to go through.
func.func @unknown(%rows: !rows) -> !rows {
  // CHECK: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: test.op has no gradient rule; give it the trait GradientTrait
  %0 = "test.op"(%rows) : (!rows) -> !rows
  %1 = moe.add %0, %0 : !rows
  func.return %1 : !rows
}

// -----

!h = tensor<?x6xf32, #moe.grouped<3 rows>>
!a = tensor<?x3xf32, #moe.grouped<3 rows>>

// The gradient of a gradient that nobody has written down.
func.func @second(%h: !h, %da: !a) -> !h {
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: moe.swiglu_grad has no gradient rule; give it the trait GradientTrait
  %dh = moe.swiglu_grad %h, %da : !h, !a -> !h
  func.return %dh : !h
}

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!sent = tensor<?x4xf32, #moe.sent<3 rows>>
!x = tensor<?x4xf32, #moe.tokens<3 rows>>

// Rows in send order that didn't come from experts.
func.func @sent(%back: !sent, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>) -> !x {
  %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !route
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: moe.sum_copies: expected rows that moe.collect brought back, found an argument; rows in send order have no gradient of their own
  %out = moe.sum_copies %back by %route : !sent, !route -> !x
  func.return %out : !x
}

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!ids = tensor<?x1xi32, #moe.tokens<3 rows>>
!rows = tensor<?x4xf32, #moe.grouped<3 rows>>
!sent = tensor<?x4xf32, #moe.sent<3 rows>>

// Rows in send order as a result.
func.func @result(%y: !rows, %ids: !ids) -> !sent {
  %route = moe.route %ids : !ids -> !route
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: moe.collect: expected its rows to be used by moe.weighted_sum or the like only; rows in send order have no gradient of their own
  %back = moe.collect %y by %route : !rows, !route -> !sent
  func.return %back : !sent
}

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!ids = tensor<?x1xi32, #moe.tokens<3 rows>>
!x = tensor<?x4xf32, #moe.tokens<3 rows>>
!rows = tensor<?x4xf32, #moe.grouped<3 rows>>
!sent = tensor<?x4xf32, #moe.sent<3 rows>>

// Rows that came by one route and are summed by another.
func.func @routes(%y: !rows, %ids: !ids, %other: !ids) -> !x {
  %route = moe.route %ids : !ids -> !route
  %second = moe.route %other : !ids -> !route
  %back = moe.collect %y by %route : !rows, !route -> !sent
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: moe.sum_copies: expected rows collected by the same route, found another; no operation brings their gradient to the experts
  %out = moe.sum_copies %back by %second : !sent, !route -> !x
  func.return %out : !x
}

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!ids = tensor<?x1xi32, #moe.tokens<3 rows>>
!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>
!w = tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>

// A gradient of weights in f32 can't be multiplied by rows in bf16.
func.func @mixed(%rows: !rows, %ids: !ids) -> !w {
  %route = moe.route %ids : !ids -> !route
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: moe.grouped_matmul: expected a gradient of the elements of lhs, bf16, found f32
  %dw = moe.grouped_matmul %rows, %rows by %route {transpose_lhs} : !rows, !rows, !route -> !w
  func.return %dw : !w
}

// -----

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>
!w = tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>

// Weights that are a result as well: the gradient that is given is no f32.
func.func @returned(%rows: !rows, %w: !w, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>) -> (!rows, !w) {
  %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !route
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: moe.grouped_matmul: expected a gradient of type tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>, as another use of the value or its accumulator has, found tensor<2x4x4xf32, #moe.experts<2 over 1 ranks>>
  %y = moe.grouped_matmul %rows, %w by %route : !rows, !w, !route -> !rows
  func.return %y, %w : !rows, !w
}

// -----

!ids = tensor<?x1xi32, #moe.tokens<3 rows>>

// Integers have no gradient.
// CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:1: error: derive-backward: @integers: no result depends on a float argument
func.func @integers(%ids: !ids) -> !ids {
  %route = moe.route %ids : !ids -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
  func.return %ids : !ids
}

// -----

!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>

// CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:1: error: derive-backward: @twice has been differentiated already
func.func @twice(%a: !rows, %b: !rows) -> !rows {
  %0 = moe.add %a, %b : !rows
  func.return %0 : !rows
}
func.func @gradients(%a: !rows) -> !rows attributes {moe.forward = @twice} {
  func.return %a : !rows
}

// -----

!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>

// CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:1: error: derive-backward: @alone has been differentiated already
func.func @alone(%a: !rows, %b: !rows) -> (!rows {moe.role = #moe.role<saved>}) {
  %0 = moe.add %a, %b : !rows
  func.return %0 : !rows
}

// -----

!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>

// Straight-line operations only.
func.func @regions(%a: !rows) -> !rows {
  // CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: @regions: expected straight-line operations, found test.op with operations inside
  %0 = "test.op"() ({
    %1 = moe.add %a, %a : !rows
    "test.termop"() : () -> ()
  }) : () -> !rows
  func.return %0 : !rows
}

// -----

!rows = tensor<?x4xbf16, #moe.grouped<3 rows>>

// CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:1: error: derive-backward: @blocks: expected straight-line operations, found 2 blocks
func.func @blocks(%a: !rows) -> !rows {
  %0 = moe.add %a, %a : !rows
  "cf.br"(%0)[^next] : (!rows) -> ()
^next(%1: !rows):
  func.return %1 : !rows
}

// -----

// CHECK-NEXT: derive-backward-invalid.mlir:[[# @LINE + 1]]:1: error: derive-backward: expected IR at the moe level, found comm.window of the comm level; derive-backward comes before convert-moe-to-comm
%counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>
