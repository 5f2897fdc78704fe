// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>
!ids = tensor<?x2xi32, #moe.tokens<7 rows>>
!counts = !comm.window<tensor<2x2x6xi32>>

// Every rank announces its counts to every other; launches use two copies of the window in turn.
%ids = "test.op"() : () -> !ids
%counts = comm.window "counts" per_launch : !counts
%own = comm.count_tokens %ids : !ids -> tensor<2x6xi32>
%announced = comm.exchange %own into %counts : tensor<2x6xi32>, !counts
%all = comm.wait %counts after %announced : !counts
%route = comm.route %ids, %all : !ids, tensor<2x2x6xi32> -> !route

// CHECK:      %ids = "test.op"() : () -> tensor<?x2xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: %counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT: %own = comm.count_tokens %ids : tensor<?x2xi32, #moe.tokens<7 rows>> -> tensor<2x6xi32>
// CHECK-NEXT: %announced = comm.exchange %own into %counts : tensor<2x6xi32>, !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT: %all = comm.wait %counts after %announced : !comm.window<tensor<2x2x6xi32>>
// CHECK-NEXT: %route = comm.route %ids, %all : tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<2x2x6xi32> -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>

// GENERIC:      %ids = "test.op"() : () -> tensor<?x2xi32, #moe.tokens<7 rows>>
// GENERIC-NEXT: %counts = "comm.window"() <{buffer = "counts", per_launch}> : () -> !comm.window<tensor<2x2x6xi32>>
// GENERIC-NEXT: %own = "comm.count_tokens"(%ids) : (tensor<?x2xi32, #moe.tokens<7 rows>>) -> tensor<2x6xi32>
// GENERIC-NEXT: %announced = "comm.exchange"(%own, %counts) : (tensor<2x6xi32>, !comm.window<tensor<2x2x6xi32>>) -> !comm.token
// GENERIC-NEXT: %all = "comm.wait"(%counts, %announced) : (!comm.window<tensor<2x2x6xi32>>, !comm.token) -> tensor<2x2x6xi32>
// GENERIC-NEXT: %route = "comm.route"(%ids, %all) : (tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<2x2x6xi32>) -> !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 28 rows>

// -----

// Rows go to the experts' ranks and back.
!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!recv = !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
!back = !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>

%x, %route = "test.op"() : () -> (!x, !route)
%recv = comm.window "recv" : !recv
%sent = comm.put dispatch %x into %recv by %route : !x, !recv, !route
%y = comm.wait %recv after %sent : !recv
%back = comm.window "back" : !back
%returned = comm.put return %y into %back by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !back, !route
%rows = comm.wait %back after %returned : !back

// CHECK:      %x, %route = "test.op"() : () -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>)
// CHECK-NEXT: %recv = comm.window "recv" : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT: %sent = comm.put dispatch %x into %recv by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT: %y = comm.wait %recv after %sent : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT: %back = comm.window "back" : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// CHECK-NEXT: %returned = comm.put return %y into %back by %route : tensor<?x48xbf16, #moe.grouped<20 rows>>, !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT: %rows = comm.wait %back after %returned : !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>

// GENERIC:      %x, %route = "test.op"() : () -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>)
// GENERIC-NEXT: %recv = "comm.window"() <{buffer = "recv"}> : () -> !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// GENERIC-NEXT: %sent = "comm.put"(%x, %recv, %route) <{direction = #comm<direction dispatch>}> : (tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> !comm.token
// GENERIC-NEXT: %y = "comm.wait"(%recv, %sent) : (!comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !comm.token) -> tensor<?x48xbf16, #moe.grouped<20 rows>>
// GENERIC-NEXT: %back = "comm.window"() <{buffer = "back"}> : () -> !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>
// GENERIC-NEXT: %returned = "comm.put"(%y, %back, %route) <{direction = #comm<direction return>}> : (tensor<?x48xbf16, #moe.grouped<20 rows>>, !comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>) -> !comm.token
// GENERIC-NEXT: %rows = "comm.wait"(%back, %returned) : (!comm.window<tensor<?x48xbf16, #moe.sent<14 rows>>>, !comm.token) -> tensor<?x48xbf16, #moe.sent<14 rows>>
