// RUN: HPMOE_ROUNDTRIP
// RUN: HPMOE_GENERIC_ROUNDTRIP

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!x = tensor<?x48xbf16, #moe.tokens<7 rows>>
!gate = tensor<?x2xf32, #moe.tokens<7 rows>>
!recv = !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>

// Each row is multiplied by its expert's weight on the way.
%x, %gate, %route = "test.op"() : () -> (!x, !gate, !route)
%recv = comm.window "recv" : !recv
%sent = comm.put dispatch %x weighted %gate into %recv by %route : !x, !recv, !route, !gate

// CHECK:      %x, %gate, %route = "test.op"() : () -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>)
// CHECK-NEXT: %recv = comm.window "recv" : !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// CHECK-NEXT: %sent = comm.put dispatch %x weighted %gate into %recv by %route : tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x2xf32, #moe.tokens<7 rows>>

// GENERIC:      "builtin.module"() ({
// GENERIC-NEXT:   %x, %gate, %route = "test.op"() : () -> (tensor<?x48xbf16, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>)
// GENERIC-NEXT:   %recv = "comm.window"() <{buffer = "recv"}> : () -> !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>
// GENERIC-NEXT:   %sent = "comm.put"(%x, %recv, %route, %gate) <{direction = #comm<direction dispatch>}> : (tensor<?x48xbf16, #moe.tokens<7 rows>>, !comm.window<tensor<?x48xbf16, #moe.grouped<20 rows>>>, !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>, tensor<?x2xf32, #moe.tokens<7 rows>>) -> !comm.token
// GENERIC-NEXT: }) : () -> ()
