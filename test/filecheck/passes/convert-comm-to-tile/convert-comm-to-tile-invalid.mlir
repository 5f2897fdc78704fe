// RUN: REJECTED hpmoe-opt %s --split-input-file -p convert-comm-to-tile | filecheck %s --match-full-lines

// The graph says nothing of windows and puts yet.
func.func @f(%h: tensor<?x64xbf16, #moe.grouped<28 rows>>) {
  // CHECK: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: expected IR at the comm level, found moe.swiglu of the moe level; run convert-moe-to-comm before it
  %a = moe.swiglu %h : tensor<?x64xbf16, #moe.grouped<28 rows>> -> tensor<?x32xbf16, #moe.grouped<28 rows>>
  func.return
}

// -----

// The pass has run already.
// CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: expected IR at the comm level, found tile.program of the tile level; it has run already
tile.program @p ranks 2 {
}

// -----

// Operations outside of any function.
// CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: expected functions only, found comm.window
%counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>


// -----

// Nothing to be sent anywhere.
// CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f has no comm.route, there is nothing to spread over ranks
func.func @f() {
  %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>
  func.return
}

// -----

// Two routes.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f has 2 routes, one is supported
func.func @f(%ids: !ids, %all: tensor<2x2x4xi32>) {
  %a = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  %b = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  func.return
}

// -----

// An argument that is in no memory.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: argument 1 of @f: expected a tensor, found index
func.func @f(%ids: !ids, %n: index, %all: tensor<2x2x4xi32>) {
  %a = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  func.return
}

// -----

// Counts that nobody exchanged: the send order needs this rank's own, by parts.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
func.func @f(%ids: !ids, %all: tensor<2x2x4xi32>) {
  // CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: comm.route needs the counts of an exchange, found those of an argument
  %a = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  func.return
}

// -----

// An operation that nobody has said the tasks of.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
func.func @f(%ids: !ids, %all: tensor<2x2x4xi32>) {
  // CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:3: error: convert-comm-to-tile: test.op has no tiling; give it the trait RowwiseTrait or HasTilingTrait
  "test.op"() : () -> ()
  %a = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  func.return
}

// -----

// An argument is no output.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: convert-comm-to-tile-invalid.mlir:[[# @LINE + 1]]:1: error: convert-comm-to-tile: @f returns as value 0 what it does not compute; outputs must be results of tasks
func.func @f(%ids: !ids, %all: tensor<2x2x4xi32>) -> !ids {
  %a = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  func.return %ids : !ids
}

// -----

// Rows that come from no put.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!h = tensor<?x64xbf16, #moe.grouped<28 rows>>
!a = tensor<?x32xbf16, #moe.grouped<28 rows>>
func.func @f(%h: !h, %ids: !ids, %all: tensor<2x2x4xi32>) -> !a {
  // CHECK-NEXT: convert-comm-to-tile-invalid.mlir: error: convert-comm-to-tile: rows that come from no put cannot be tiled, their route is unknown
  %a = moe.swiglu %h : !h -> !a
  %r = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route
  func.return %a : !a
}
