// RUN: hpmoe-opt %s -p 'derive-backward{weight-gradients=f32}' --split-input-file | filecheck %s --check-prefix=F32
// RUN: hpmoe-opt %s -p 'derive-backward{weight-gradients=activation}' --split-input-file | filecheck %s --check-prefix=ACTIVATION
// RUN: hpmoe-opt %s -p 'derive-backward{accumulate=true}' --split-input-file | filecheck %s --check-prefix=ADDED

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!rows = tensor<?x6xbf16, #moe.grouped<3 rows>>
!w = tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>

// Gradients of weights: in f32, in the type of the weights, and added to those of earlier batches.
func.func @matmul(%rows: !rows, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %w: !w) -> tensor<?x4xbf16, #moe.grouped<3 rows>> {
  %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !route
  %y = moe.grouped_matmul %rows, %w by %route : !rows, !w, !route -> tensor<?x4xbf16, #moe.grouped<3 rows>>
  func.return %y : tensor<?x4xbf16, #moe.grouped<3 rows>>
}

// F32:      func.func @matmul(%rows: tensor<?x6xbf16, #moe.grouped<3 rows>>, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %w: tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>) -> tensor<?x4xbf16, #moe.grouped<3 rows>> {
// F32-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// F32-NEXT:   %y = moe.grouped_matmul %rows, %w by %route : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// F32-NEXT:   func.return %y : tensor<?x4xbf16, #moe.grouped<3 rows>>
// F32-NEXT: }
// F32-NEXT: func.func @matmul_backward(%dy: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %rows: tensor<?x6xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<argument 0>}, %ids: tensor<?x1xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %w: tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<argument 2>}) -> (tensor<?x6xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<gradient of argument 2>}) attributes {moe.forward = @matmul} {
// F32-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// F32-NEXT:   %drows = moe.grouped_matmul %dy, %w by %route {transpose_rhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x6xbf16, #moe.grouped<3 rows>>
// F32-NEXT:   %dw = moe.grouped_matmul %rows, %dy by %route {transpose_lhs} : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>>
// F32-NEXT:   func.return %drows, %dw : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>>
// F32-NEXT: }

// ACTIVATION:      func.func @matmul(%rows: tensor<?x6xbf16, #moe.grouped<3 rows>>, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %w: tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>) -> tensor<?x4xbf16, #moe.grouped<3 rows>> {
// ACTIVATION-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// ACTIVATION-NEXT:   %y = moe.grouped_matmul %rows, %w by %route : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// ACTIVATION-NEXT:   func.return %y : tensor<?x4xbf16, #moe.grouped<3 rows>>
// ACTIVATION-NEXT: }
// ACTIVATION-NEXT: func.func @matmul_backward(%dy: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %rows: tensor<?x6xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<argument 0>}, %ids: tensor<?x1xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %w: tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<argument 2>}) -> (tensor<?x6xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<gradient of argument 2>}) attributes {moe.forward = @matmul} {
// ACTIVATION-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// ACTIVATION-NEXT:   %drows = moe.grouped_matmul %dy, %w by %route {transpose_rhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x6xbf16, #moe.grouped<3 rows>>
// ACTIVATION-NEXT:   %dw = moe.grouped_matmul %rows, %dy by %route {transpose_lhs} : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>
// ACTIVATION-NEXT:   func.return %drows, %dw : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>
// ACTIVATION-NEXT: }

// ADDED:      func.func @matmul(%rows: tensor<?x6xbf16, #moe.grouped<3 rows>>, %ids: tensor<?x1xi32, #moe.tokens<3 rows>>, %w: tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>) -> tensor<?x4xbf16, #moe.grouped<3 rows>> {
// ADDED-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// ADDED-NEXT:   %y = moe.grouped_matmul %rows, %w by %route : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x4xbf16, #moe.grouped<3 rows>>
// ADDED-NEXT:   func.return %y : tensor<?x4xbf16, #moe.grouped<3 rows>>
// ADDED-NEXT: }
// ADDED-NEXT: func.func @matmul_backward(%dy: tensor<?x4xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of result 0>}, %rows: tensor<?x6xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<argument 0>}, %ids: tensor<?x1xi32, #moe.tokens<3 rows>> {moe.role = #moe.role<argument 1>}, %w: tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<argument 2>}, %dw_acc: tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<accumulator of argument 2>}) -> (tensor<?x6xbf16, #moe.grouped<3 rows>> {moe.role = #moe.role<gradient of argument 0>}, tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>> {moe.role = #moe.role<gradient of argument 2>}) attributes {moe.forward = @matmul} {
// ADDED-NEXT:   %route = moe.route %ids : tensor<?x1xi32, #moe.tokens<3 rows>> -> !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
// ADDED-NEXT:   %drows = moe.grouped_matmul %dy, %w by %route {transpose_rhs} : tensor<?x4xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xbf16, #moe.experts<2 over 1 ranks>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows> -> tensor<?x6xbf16, #moe.grouped<3 rows>>
// ADDED-NEXT:   %dw = moe.grouped_matmul %rows, %dy into %dw_acc by %route {transpose_lhs} : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<?x4xbf16, #moe.grouped<3 rows>>, !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>, tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>> -> tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>>
// ADDED-NEXT:   func.return %drows, %dw : tensor<?x6xbf16, #moe.grouped<3 rows>>, tensor<2x6x4xf32, #moe.experts<2 over 1 ranks>>
// ADDED-NEXT: }
