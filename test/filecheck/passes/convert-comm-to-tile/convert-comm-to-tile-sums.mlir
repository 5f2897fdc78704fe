// RUN: hpmoe-opt %s -p 'convert-moe-to-comm,convert-comm-to-tile{source-groups=1}' | filecheck %s
// RUN: hpmoe-opt %s -p lower-moe | filecheck %s --check-prefix=LOWERED

// Two products that are added up, and two that are added to an argument: one buffer each, written one after the other.
!route = !moe.route<7 tokens, top 1, 2 experts over 1 ranks, 7 rows>
!ids = tensor<?x1xi32, #moe.tokens<7 rows>>
!rows = tensor<?x32xbf16, #moe.grouped<7 rows>>
!sum = tensor<2x32x32xf32, #moe.experts<2 over 1 ranks>>

func.func @f(%ids: !ids, %a: !rows, %b: !rows, %acc: !sum) -> (!sum, !sum) {
  %route = moe.route %ids : !ids -> !route
  %first = moe.grouped_matmul %a, %b by %route {transpose_lhs} : !rows, !rows, !route -> !sum
  %twice = moe.grouped_matmul %b, %a into %first by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  %one = moe.grouped_matmul %a, %a into %acc by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  %two = moe.grouped_matmul %b, %b into %one by %route {transpose_lhs} : !rows, !rows, !route, !sum -> !sum
  func.return %twice, %two : !sum, !sum
}

// CHECK:      tile.program @f ranks 1 (@ids, @a, @b, @acc) -> (@twice, @acc, @status: status) {
// CHECK-NEXT:   tile.buffer @ids input : !tile.buffer<tokens 7 rows, 1xi32>
// CHECK-NEXT:   tile.buffer @a input : !tile.buffer<grouped 7 rows, 32xbf16>
// CHECK-NEXT:   tile.buffer @b input : !tile.buffer<grouped 7 rows, 32xbf16>
// CHECK-NEXT:   tile.buffer @acc inout : !tile.buffer<2x32x32xf32>
// CHECK-NEXT:   tile.buffer @twice output : !tile.buffer<2x32x32xf32>
// CHECK-NEXT:   tile.buffer @status output : !tile.buffer<16xi32>
// CHECK:          tile.tasks @weight_gradient (e, m, n) in (2, 1, 1) on aic
// CHECK-NEXT:     kernel "weight_gradient" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, accumulate = 0 : i64} using @route
// CHECK-NEXT:     reads @a[grouped(e, 0 of 1), block(m by 128)], @b[grouped(e, 0 of 1), block(n by 256)]
// CHECK-NEXT:     writes @twice[e, block(m by 128), block(n by 256)]
// CHECK-NEXT:   tile.tasks @weight_gradient_1 (e, m, n) in (2, 1, 1) on aic
// CHECK-NEXT:     kernel "weight_gradient" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, accumulate = 1 : i64} using @route
// CHECK-NEXT:     reads @b[grouped(e, 0 of 1), block(m by 128)], @a[grouped(e, 0 of 1), block(n by 256)]
// CHECK-NEXT:     writes @twice[e, block(m by 128), block(n by 256)]
// CHECK-NEXT:   tile.tasks @weight_gradient_2 (e, m, n) in (2, 1, 1) on aic
// CHECK-NEXT:     kernel "weight_gradient" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, accumulate = 1 : i64} using @route
// CHECK-NEXT:     reads @a[grouped(e, 0 of 1), block(m by 128)], @a[grouped(e, 0 of 1), block(n by 256)]
// CHECK-NEXT:     writes @acc[e, block(m by 128), block(n by 256)]
// CHECK-NEXT:   tile.tasks @weight_gradient_3 (e, m, n) in (2, 1, 1) on aic
// CHECK-NEXT:     kernel "weight_gradient" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, accumulate = 1 : i64} using @route
// CHECK-NEXT:     reads @b[grouped(e, 0 of 1), block(m by 128)], @b[grouped(e, 0 of 1), block(n by 256)]
// CHECK-NEXT:     writes @acc[e, block(m by 128), block(n by 256)]

// LOWERED: queue.program @f ranks 1 machine "ascend-a3" counters at 512 (@ids, @a, @b, @acc) -> (@twice, @acc, @status: status) {
