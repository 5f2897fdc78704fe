// RUN: hpmoe-opt %s -p derive-backward --split-input-file | filecheck %s

!route = !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
!ids = tensor<?x2xi32, #moe.tokens<3 rows>>
!x = tensor<?x5xf64, #moe.tokens<3 rows>>
!rows = tensor<?x5xf64, #moe.grouped<6 rows>>

// moe.dispatch: the copies of a token come back and are summed. Nothing is saved.
func.func @dispatch(%x: !x, %ids: !ids) -> !rows {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> !rows
  func.return %recv : !rows
}

// CHECK:      func.func @dispatch(%x: tensor<?x5xf64, #moe.tokens<3 rows>>, %ids: tensor<?x2xi32, #moe.tokens<3 rows>>) -> tensor<?x5xf64, #moe.grouped<6 rows>> {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %recv = moe.dispatch %x by %route : tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   func.return %recv : tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @dispatch_backward(%drecv: tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of result 0>}, %ids: tensor<?x2xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}) -> (tensor<?x5xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of argument 0>}) attributes {moe.forward = @dispatch} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %dcopies = moe.collect %drecv by %route : tensor<?x5xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT:   %dx = moe.sum_copies %dcopies by %route : tensor<?x5xf64, #moe.sent<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %dx : tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
!ids = tensor<?x2xi32, #moe.tokens<3 rows>>
!x = tensor<?x5xf64, #moe.tokens<3 rows>>
!gate = tensor<?x2xf64, #moe.tokens<3 rows>>
!rows = tensor<?x5xf64, #moe.grouped<6 rows>>

// moe.combine: what came back is saved, for the gradient of the gate weights.
func.func @combine(%y: !rows, %gate: !gate, %ids: !ids) -> !x {
  %route = moe.route %ids : !ids -> !route
  %out = moe.combine %y, %gate by %route : !rows, !gate, !route -> !x
  func.return %out : !x
}

// CHECK:      func.func @combine(%y: tensor<?x5xf64, #moe.grouped<6 rows>>, %gate: tensor<?x2xf64, #moe.tokens<3 rows>>, %ids: tensor<?x2xi32, #moe.tokens<3 rows>>) -> (tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x5xf64, #moe.sent<6 rows>> {moe.role = #moe.role<saved>}) {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %back = moe.collect %y by %route : tensor<?x5xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT:   %out = moe.weighted_sum %back, %gate by %route : tensor<?x5xf64, #moe.sent<6 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %out, %back : tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @combine_backward(%dout: tensor<?x5xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %gate: tensor<?x2xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %ids: tensor<?x2xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 2>}, %back: tensor<?x5xf64, #moe.sent<6 rows>> {moe.role = #moe.role<result 1>}) -> (tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<?x2xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of argument 1>}) attributes {moe.forward = @combine} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x5xf64, #moe.sent<6 rows>>, tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x2xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %dy, %dgate : tensor<?x5xf64, #moe.grouped<6 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>
// CHECK-NEXT: }

// -----

// moe.swiglu: of what it was computed of. An argument isn't saved, the caller has it.
func.func @swiglu(%h: tensor<?x6xf32, #moe.grouped<6 rows>>) -> tensor<?x3xf32, #moe.grouped<6 rows>> {
  %a = moe.swiglu %h : tensor<?x6xf32, #moe.grouped<6 rows>> -> tensor<?x3xf32, #moe.grouped<6 rows>>
  func.return %a : tensor<?x3xf32, #moe.grouped<6 rows>>
}

// CHECK:      func.func @swiglu(%h: tensor<?x6xf32, #moe.grouped<6 rows>>) -> tensor<?x3xf32, #moe.grouped<6 rows>> {
// CHECK-NEXT:   %a = moe.swiglu %h : tensor<?x6xf32, #moe.grouped<6 rows>> -> tensor<?x3xf32, #moe.grouped<6 rows>>
// CHECK-NEXT:   func.return %a : tensor<?x3xf32, #moe.grouped<6 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @swiglu_backward(%da: tensor<?x3xf32, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of result 0>}, %h: tensor<?x6xf32, #moe.grouped<6 rows>> {moe.role = #moe.role<argument 0>}) -> (tensor<?x6xf32, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of argument 0>}) attributes {moe.forward = @swiglu} {
// CHECK-NEXT:   %dh = moe.swiglu_grad %h, %da : tensor<?x6xf32, #moe.grouped<6 rows>>, tensor<?x3xf32, #moe.grouped<6 rows>> -> tensor<?x6xf32, #moe.grouped<6 rows>>
// CHECK-NEXT:   func.return %dh : tensor<?x6xf32, #moe.grouped<6 rows>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
!ids = tensor<?x2xi32, #moe.tokens<3 rows>>
!rows = tensor<?x5xf64, #moe.grouped<6 rows>>
!cols = tensor<?x4xf64, #moe.grouped<6 rows>>

// moe.grouped_matmul with transposed weights: the gradient is transposed, too.
func.func @transposed(%rows: !rows, %ids: !ids, %w: tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>) -> !cols {
  %route = moe.route %ids : !ids -> !route
  %y = moe.grouped_matmul %rows, %w by %route {transpose_rhs} : !rows, tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>, !route -> !cols
  func.return %y : !cols
}

// CHECK:      func.func @transposed(%rows: tensor<?x5xf64, #moe.grouped<6 rows>>, %ids: tensor<?x2xi32, #moe.tokens<3 rows>>, %w: tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>) -> tensor<?x4xf64, #moe.grouped<6 rows>> {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %y = moe.grouped_matmul %rows, %w by %route {transpose_rhs} : tensor<?x5xf64, #moe.grouped<6 rows>>, tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x4xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   func.return %y : tensor<?x4xf64, #moe.grouped<6 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @transposed_backward(%dy: tensor<?x4xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of result 0>}, %rows: tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<argument 0>}, %ids: tensor<?x2xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %w: tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>> {moe.role = #moe.role<argument 2>}) -> (tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>> {moe.role = #moe.role<gradient of argument 2>}) attributes {moe.forward = @transposed} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %drows = moe.grouped_matmul %dy, %w by %route : tensor<?x4xf64, #moe.grouped<6 rows>>, tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   %dw = moe.grouped_matmul %dy, %rows by %route {transpose_lhs} : tensor<?x4xf64, #moe.grouped<6 rows>>, tensor<?x5xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>
// CHECK-NEXT:   func.return %drows, %dw : tensor<?x5xf64, #moe.grouped<6 rows>>, tensor<2x4x5xf64, #moe.experts<4 over 2 ranks>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
!ids = tensor<?x2xi32, #moe.tokens<3 rows>>
!rows = tensor<?x5xf64, #moe.grouped<6 rows>>
!cols = tensor<?x4xf64, #moe.grouped<6 rows>>
!w = tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>

// moe.grouped_matmul of transposed rows, and what it is added to.
func.func @weight_gradient(%rows: !rows, %cols: !cols, %ids: !ids, %earlier: !w) -> !w {
  %route = moe.route %ids : !ids -> !route
  %dw = moe.grouped_matmul %rows, %cols into %earlier by %route {transpose_lhs} : !rows, !cols, !route, !w -> !w
  func.return %dw : !w
}

// CHECK:      func.func @weight_gradient(%rows: tensor<?x5xf64, #moe.grouped<6 rows>>, %cols: tensor<?x4xf64, #moe.grouped<6 rows>>, %ids: tensor<?x2xi32, #moe.tokens<3 rows>>, %earlier: tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>) -> tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>> {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %dw = moe.grouped_matmul %rows, %cols into %earlier by %route {transpose_lhs} : tensor<?x5xf64, #moe.grouped<6 rows>>, tensor<?x4xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>, tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>> -> tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>
// CHECK-NEXT:   func.return %dw : tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @weight_gradient_backward(%ddw: tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>> {moe.role = #moe.role<gradient of result 0>}, %rows: tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<argument 0>}, %cols: tensor<?x4xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<argument 1>}, %ids: tensor<?x2xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 2>}) -> (tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<?x4xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of argument 1>}, tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>> {moe.role = #moe.role<gradient of argument 3>}) attributes {moe.forward = @weight_gradient} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %drows = moe.grouped_matmul %cols, %ddw by %route {transpose_rhs} : tensor<?x4xf64, #moe.grouped<6 rows>>, tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   %dcols = moe.grouped_matmul %rows, %ddw by %route : tensor<?x5xf64, #moe.grouped<6 rows>>, tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x4xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   func.return %drows, %dcols, %ddw : tensor<?x5xf64, #moe.grouped<6 rows>>, tensor<?x4xf64, #moe.grouped<6 rows>>, tensor<2x5x4xf64, #moe.experts<4 over 2 ranks>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
!ids = tensor<?x2xi32, #moe.tokens<3 rows>>
!x = tensor<?x5xf64, #moe.tokens<3 rows>>
!gate = tensor<?x2xf64, #moe.tokens<3 rows>>
!rows = tensor<?x5xf64, #moe.grouped<6 rows>>
!sent = tensor<?x5xf64, #moe.sent<6 rows>>

// moe.dispatch_weighted, moe.collect and moe.gate_gradient: gradients of gradients.
func.func @gate_gradient(%dout: !x, %gate: !gate, %ids: !ids) -> !gate {
  %route = moe.route %ids : !ids -> !route
  %dy = moe.dispatch_weighted %dout, %gate by %route : !x, !gate, !route -> !rows
  %back = moe.collect %dy by %route : !rows, !route -> !sent
  %dgate = moe.gate_gradient %back, %dout by %route : !sent, !x, !route -> !gate
  func.return %dgate : !gate
}

// CHECK:      func.func @gate_gradient(%dout: tensor<?x5xf64, #moe.tokens<3 rows>>, %gate: tensor<?x2xf64, #moe.tokens<3 rows>>, %ids: tensor<?x2xi32, #moe.tokens<3 rows>>) -> (tensor<?x2xf64, #moe.tokens<3 rows>>, tensor<?x5xf64, #moe.sent<6 rows>> {moe.role = #moe.role<saved>}) {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %dy = moe.dispatch_weighted %dout, %gate by %route : tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   %back = moe.collect %dy by %route : tensor<?x5xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT:   %dgate = moe.gate_gradient %back, %dout by %route : tensor<?x5xf64, #moe.sent<6 rows>>, tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x2xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %dgate, %back : tensor<?x2xf64, #moe.tokens<3 rows>>, tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @gate_gradient_backward(%ddgate: tensor<?x2xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %dout: tensor<?x5xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 0>}, %gate: tensor<?x2xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %ids: tensor<?x2xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 2>}, %back: tensor<?x5xf64, #moe.sent<6 rows>> {moe.role = #moe.role<result 1>}) -> (tensor<?x5xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<?x2xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of argument 1>}) attributes {moe.forward = @gate_gradient} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %ddy = moe.dispatch_weighted %dout, %ddgate by %route : tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   %ddout = moe.weighted_sum %back, %ddgate by %route : tensor<?x5xf64, #moe.sent<6 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   %dcopies = moe.collect %ddy by %route : tensor<?x5xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT:   %ddout_1 = moe.weighted_sum %dcopies, %gate by %route : tensor<?x5xf64, #moe.sent<6 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   %dgate = moe.gate_gradient %dcopies, %dout by %route : tensor<?x5xf64, #moe.sent<6 rows>>, tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x2xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   %ddout_2 = moe.add %ddout, %ddout_1 : tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %ddout_2, %dgate : tensor<?x5xf64, #moe.tokens<3 rows>>, tensor<?x2xf64, #moe.tokens<3 rows>>
// CHECK-NEXT: }

// -----

!route = !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
!ids = tensor<?x2xi32, #moe.tokens<3 rows>>
!x = tensor<?x5xf64, #moe.tokens<3 rows>>
!rows = tensor<?x5xf64, #moe.grouped<6 rows>>
!sent = tensor<?x5xf64, #moe.sent<6 rows>>

// moe.sum_copies: each copy gets the gradient. The rows that came back aren't needed.
func.func @sum_copies(%y: !rows, %ids: !ids) -> !x {
  %route = moe.route %ids : !ids -> !route
  %back = moe.collect %y by %route : !rows, !route -> !sent
  %out = moe.sum_copies %back by %route : !sent, !route -> !x
  func.return %out : !x
}

// CHECK:      func.func @sum_copies(%y: tensor<?x5xf64, #moe.grouped<6 rows>>, %ids: tensor<?x2xi32, #moe.tokens<3 rows>>) -> tensor<?x5xf64, #moe.tokens<3 rows>> {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %back = moe.collect %y by %route : tensor<?x5xf64, #moe.grouped<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.sent<6 rows>>
// CHECK-NEXT:   %out = moe.sum_copies %back by %route : tensor<?x5xf64, #moe.sent<6 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT:   func.return %out : tensor<?x5xf64, #moe.tokens<3 rows>>
// CHECK-NEXT: }
// CHECK-NEXT: func.func @sum_copies_backward(%dout: tensor<?x5xf64, #moe.tokens<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %ids: tensor<?x2xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}) -> (tensor<?x5xf64, #moe.grouped<6 rows>> {moe.role = #moe.role<gradient of argument 0>}) attributes {moe.forward = @sum_copies} {
// CHECK-NEXT:   %route = moe.route %ids : tensor<?x2xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows>
// CHECK-NEXT:   %dy = moe.dispatch %dout by %route : tensor<?x5xf64, #moe.tokens<3 rows>>, !moe.route<3 tokens, top 2, 4 experts over 2 ranks, 6 rows> -> tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT:   func.return %dy : tensor<?x5xf64, #moe.grouped<6 rows>>
// CHECK-NEXT: }
