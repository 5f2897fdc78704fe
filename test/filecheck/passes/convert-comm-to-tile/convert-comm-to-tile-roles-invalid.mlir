// RUN: REJECTED hpmoe-opt %s --split-input-file -p convert-moe-to-comm,convert-comm-to-tile | filecheck %s --match-full-lines

!ids = tensor<?x2xi32, #moe.tokens<7 rows>>

// A role that is another attribute.
// CHECK: convert-comm-to-tile-roles-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f: argument 0: moe.role: expected #moe.role<...>, found "expert_ids"
func.func @f(%0: !ids {moe.role = "expert_ids"}) {
  %1 = moe.route %0 : !ids -> !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
  func.return
}

// -----

!ids = tensor<?x2xi32, #moe.tokens<7 rows>>

// One role for two arguments.
// CHECK-NEXT: convert-comm-to-tile-roles-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f: argument 1: expected another role than argument 0: expert_ids
func.func @f(%0: !ids {moe.role = #moe.role<expert_ids>}, %1: !ids {moe.role = #moe.role<expert_ids>}) {
  %2 = moe.route %0 : !ids -> !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
  func.return
}

// -----

!ids = tensor<?x2xi32, #moe.tokens<7 rows>>

// A forward function that is no symbol.
// CHECK-NEXT: convert-comm-to-tile-roles-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f: moe.forward: expected the symbol of a function, found "layer"
func.func @f(%0: !ids) attributes {moe.forward = "layer"} {
  %1 = moe.route %0 : !ids -> !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
  func.return
}
