// RUN: REJECTED hpmoe-opt %s -p 'derive-backward{accumulate=true}' | filecheck %s --match-full-lines

!w = tensor<2x4x4xbf16, #moe.experts<2 over 1 ranks>>
// An accumulator has no room for a gradient that is an argument already.
func.func @returned(%w: !w) -> !w {
  %0 = moe.add %w, %w : !w
  // CHECK: derive-backward-accumulate-invalid.mlir:[[# @LINE + 1]]:3: error: derive-backward: option accumulate: expected weights to be used only, found that they are returned as they are
  func.return %w : !w
}
