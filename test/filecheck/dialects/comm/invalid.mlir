// RUN: HPMOE_INVALID

// Two windows would share their memory.
%a = comm.window "recv" : !comm.window<tensor<2x2x4xi32>>
// CHECK: invalid.mlir:[[# @LINE + 1]]:1: error: comm.window: expected a name that no other window has, found "recv" again
%b = comm.window "recv" : !comm.window<tensor<2x2x4xi32>>

// -----

// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:27: error: parameter 'content' does not verify: i32 should be of base attribute tensor
%a = comm.window "recv" : !comm.window<i32>

// -----

// Ids without a placement.
%ids = "test.op"() : () -> tensor<7x2xi32>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.count_tokens: ids: expected tensor<?xKxi32, #moe.tokens<T rows>>, found tensor<7x2xi32>
%own = comm.count_tokens %ids : tensor<7x2xi32> -> tensor<2x4xi32>

// -----

%ids = "test.op"() : () -> tensor<?x2xi64, #moe.tokens<7 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.count_tokens: ids: expected tensor<?xKxi32, #moe.tokens<T rows>>, found tensor<?x2xi64, #moe.tokens<7 rows>>
%own = comm.count_tokens %ids : tensor<?x2xi64, #moe.tokens<7 rows>> -> tensor<2x4xi32>

// -----

%ids = "test.op"() : () -> tensor<?xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.count_tokens: ids: expected tensor<?xNxTYPE, #moe.tokens<7 rows>>, found tensor<?xi32, #moe.tokens<7 rows>>
%own = comm.count_tokens %ids : tensor<?xi32, #moe.tokens<7 rows>> -> tensor<2x4xi32>

// -----

// Numbers of rows without the sums.
%ids = "test.op"() : () -> tensor<?x2xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.count_tokens: counts: expected tensor<2xExi32>, found tensor<4xi32>
%own = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> tensor<4xi32>

// -----

// A slot for the counts of one expert less.
!counts = !comm.window<tensor<2x2x3xi32>>
%own, %window = "test.op"() : () -> (tensor<2x4xi32>, !counts)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.exchange: window: expected a slot of 2x4xi32 for each rank, !comm.window<tensor<Rx2x4xi32>>, found !comm.window<tensor<2x2x3xi32>>
%announced = comm.exchange %own into %window : tensor<2x4xi32>, !counts

// -----

!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<8 rows>>
%ids, %all = "test.op"() : () -> (!ids, tensor<2x2x4xi32>)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.route: ids: expected tensor<?x2xi32, #moe.tokens<7 rows>>, found tensor<?x2xi32, #moe.tokens<8 rows>>
%route = comm.route %ids, %all : !ids, tensor<2x2x4xi32> -> !route

// -----

// The counts of three ranks for a route over two.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
%ids, %all = "test.op"() : () -> (!ids, tensor<3x2x4xi32>)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.route: all_counts: expected tensor<2x2x4xi32>, found tensor<3x2x4xi32>
%route = comm.route %ids, %all : !ids, tensor<3x2x4xi32> -> !route

// -----

// Received rows can't be dispatched.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!rows = tensor<?x5xbf16, #moe.grouped<28 rows>>
%x, %window, %route = "test.op"() : () -> (!rows, !comm.window<!rows>, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.put: x: expected tensor<?xNxTYPE, #moe.tokens<7 rows>>, found tensor<?x5xbf16, #moe.grouped<28 rows>>
%sent = comm.put dispatch %x into %window by %route : !rows, !comm.window<!rows>, !route

// -----

// Token rows can't be returned.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xbf16, #moe.tokens<7 rows>>
!back = !comm.window<tensor<?x5xbf16, #moe.sent<14 rows>>>
%x, %window, %route = "test.op"() : () -> (!x, !back, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.put: x: expected tensor<?xNxTYPE, #moe.grouped<28 rows>>, found tensor<?x5xbf16, #moe.tokens<7 rows>>
%sent = comm.put return %x into %window by %route : !x, !back, !route

// -----

// Less room than the route allows rows.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xbf16, #moe.tokens<7 rows>>
!recv = !comm.window<tensor<?x5xbf16, #moe.grouped<20 rows>>>
%x, %window, %route = "test.op"() : () -> (!x, !recv, !route)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.put: window: expected !comm.window<tensor<?x5xbf16, #moe.grouped<28 rows>>>, found !comm.window<tensor<?x5xbf16, #moe.grouped<20 rows>>>
%sent = comm.put dispatch %x into %window by %route : !x, !recv, !route

// -----

%x, %window, %route = "test.op"() : () -> (i32, i32, i32)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:18: error: Expected `dispatch`, or `return`.
%sent = comm.put broadcast %x into %window by %route : i32, i32, i32

// -----

// The token is of a put into another window.
!route = !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 28 rows>
!x = tensor<?x5xbf16, #moe.tokens<7 rows>>
!recv = !comm.window<tensor<?x5xbf16, #moe.grouped<28 rows>>>
%x, %a, %b, %route = "test.op"() : () -> (!x, !recv, !recv, !route)
%sent = comm.put dispatch %x into %a by %route : !x, !recv, !route
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.wait: token: expected a put into the window that is waited for, found one into another
%recv = comm.wait %b after %sent : !recv

// -----

// Only generic text can spell this.
%window, %token = "test.op"() : () -> (!comm.window<tensor<2x2x4xi32>>, !comm.token)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.wait: result 'content' at position 0 does not verify: attribute tensor<2x2x4xi32> expected from variable 'T', but got tensor<2x2x5xi32>
%all = "comm.wait"(%window, %token) : (!comm.window<tensor<2x2x4xi32>>, !comm.token) -> tensor<2x2x5xi32>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!y = tensor<?x5xf32, #moe.grouped<20 rows>>
!back = !comm.window<tensor<?x5xf32, #moe.sent<14 rows>>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>

// Rows go back as they are.
%y, %back, %route, %gate = "test.op"() : () -> (!y, !back, !route, !gate)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.put: expected weighted only with dispatch, found it with return
"comm.put"(%y, %back, %route, %gate) <{direction = #comm<direction return>}> : (!y, !back, !route, !gate) -> !comm.token

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x5xf32, #moe.tokens<7 rows>>
!recv = !comm.window<tensor<?x5xf32, #moe.grouped<20 rows>>>
!gate = tensor<?x3xf32, #moe.tokens<7 rows>>

// One weight for each of a token's experts.
%x, %recv, %route, %gate = "test.op"() : () -> (!x, !recv, !route, !gate)
// CHECK-NEXT: invalid.mlir:[[# @LINE + 1]]:1: error: comm.put: gate: expected tensor<?x2xf32, #moe.tokens<7 rows>>, found tensor<?x3xf32, #moe.tokens<7 rows>>
"comm.put"(%x, %recv, %route, %gate) <{direction = #comm<direction dispatch>}> : (!x, !recv, !route, !gate) -> !comm.token
