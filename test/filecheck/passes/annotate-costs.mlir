// RUN: hpmoe-opt %s -p annotate-costs | filecheck %s
// RUN: hpmoe-opt %s -p annotate-costs | hpmoe-opt -p annotate-costs | filecheck %s
// RUN: hpmoe-opt %s -p annotate-costs --print-op-generic | hpmoe-opt | filecheck %s
// RUN: hpmoe-opt %s -p annotate-costs --print-op-generic | filecheck %s --check-prefix=GENERIC

// Costs are for one row: those of the kernel for the widths of its tiles, a block at its widest.
// A cost that is there is replaced.
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @x workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @w input : !tile.buffer<3x48x80xbf16>
  tile.buffer @h workspace : !tile.buffer<grouped 20 rows, 80xbf16>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 40xbf16>
  tile.buffer @n workspace : !tile.buffer<4x6xi32>
  tile.buffer @ids input : !tile.buffer<tokens 7 rows, 2xi32>
  tile.tasks @count (b) in (4) on aiv
    kernel "count_tokens"
    reads @ids[tokens(b of 4), :]
    writes @n[b, :]
  tile.tasks @matmul (e, n) in (3, 2) on aic
    kernel "grouped_matmul" {tile_m = 128 : i64, tile_n = 256 : i64, tile_k = 64 : i64, transpose_rhs = 0 : i64} using @route
    reads @x[grouped(e, 0 of 1), :], @w[e, :, block(n by 64)]
    writes @h[grouped(e, 0 of 1), block(n by 64)]
    cost <1 macs, 2 vector elements, 3 bytes>
  tile.tasks @swiglu (e) in (3) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, 0 of 1), :]
    writes @a[grouped(e, 0 of 1), :]
}

// CHECK:      writes @n[b, :]
// CHECK-NEXT: cost <0 macs, 0 vector elements, 0 bytes>
// CHECK:      writes @h[grouped(e, 0 of 1), block(n by 64)]
// CHECK-NEXT: cost <3072 macs, 0 vector elements, 272 bytes>
// CHECK:      writes @a[grouped(e, 0 of 1), :]
// CHECK-NEXT: cost <0 macs, 320 vector elements, 240 bytes>

// GENERIC: cost = #tile.cost<3072 macs, 0 vector elements, 272 bytes>
