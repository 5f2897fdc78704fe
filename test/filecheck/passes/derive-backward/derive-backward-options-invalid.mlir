// What an option names must be known, and there.
// RUN: REJECTED hpmoe-opt %s -p 'derive-backward{recompute=swiglo}' | filecheck %s --match-full-lines --check-prefix=UNKNOWN
// RUN: REJECTED hpmoe-opt %s -p 'derive-backward{recompute=dispatch,swiglu}' | filecheck %s --match-full-lines --check-prefix=NOTHING
// UNKNOWN: derive-backward-options-invalid.mlir: error: derive-backward: option recompute: unknown value 'swiglo'; did you mean 'swiglu'?
// NOTHING: derive-backward-options-invalid.mlir:[[# @LINE + 16]]:1: error: derive-backward: option recompute: @dispatch makes nothing that 'swiglu' names

// Gradients are added up in f32.
// RUN: REJECTED hpmoe-opt %s -p 'derive-backward{accumulate=true weight-gradients=activation}' | filecheck %s --match-full-lines --check-prefix=ADDED
// ADDED: derive-backward-options-invalid.mlir: error: derive-backward: option accumulate: gradients are added up in f32, expected weight_gradients=f32, found activation
// RUN: REJECTED hpmoe-opt %s -p 'derive-backward{weight-gradients=f64}' | filecheck %s --match-full-lines --check-prefix=TYPE
// TYPE: error: pass 'derive-backward': option 'weight-gradients': expected f32 or activation, found f64

// The pass has run already.
// RUN: REJECTED hpmoe-opt %S/derive-backward-weights.mlir -p 'derive-backward{accumulate=true},derive-backward' | filecheck %s --match-full-lines --check-prefix=AGAIN
// AGAIN: derive-backward-weights.mlir:10:1: error: derive-backward: @matmul has been differentiated already

!route = !moe.route<3 tokens, top 1, 2 experts over 1 ranks, 3 rows>
!x = tensor<?x4xbf16, #moe.tokens<3 rows>>
!ids = tensor<?x1xi32, #moe.tokens<3 rows>>

func.func @dispatch(%x: !x, %ids: !ids) -> tensor<?x4xbf16, #moe.grouped<3 rows>> {
  %route = moe.route %ids : !ids -> !route
  %recv = moe.dispatch %x by %route : !x, !route -> tensor<?x4xbf16, #moe.grouped<3 rows>>
  func.return %recv : tensor<?x4xbf16, #moe.grouped<3 rows>>
}
