// RUN: hpmoe-opt %s --split-input-file -p assign-queues | filecheck %s
// RUN: hpmoe-opt %s --split-input-file -p 'assign-queues{policy=operator-order rotate=false machine=ascend-a2}' | filecheck %s --check-prefix=OPERATOR

// Puts feed matrix tasks of two experts, those a vector task each. Depth first: puts of expert 1 come before what follows from expert 0.
// Rotated, the peer is counted from the rank, in the regions and in the events.
tile.program @layer ranks 2 {
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 4 experts over 2 ranks, 20 rows>
  tile.buffer @h workspace at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @a workspace at 2048 : !tile.buffer<grouped 20 rows, 24xbf16>
  tile.buffer @recv window at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @put (p, e) in (2, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent(p * 2 + e), :]
    writes @recv on p [grouped(e, rank of 2), :]
  tile.tasks @matmul (e, n) in (2, 3) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, 0 of 1), :], @recv[grouped(e, 0 of 1), :]
    writes @h[grouped(e, 0 of 1), block(n by 16)]
  tile.tasks @swiglu (e) in (2) on aiv
    kernel "swiglu" using @route
    reads @h[grouped(e, 0 of 1), :]
    writes @a[grouped(e, 0 of 1), :]
  tile.dependence @put (p, e) -> @matmul (e, n) on @recv
    events (2) from (e) on p to (e) count 2
  tile.dependence @matmul (e, n) -> @swiglu (e) on @h
    events (2) from (e) to (e) count 3
}

// CHECK-LABEL: queue.program @layer ranks 2 machine "ascend-a3" {
// CHECK:        tile.tasks @put (p, e) in (2, 2) on aiv
// CHECK-NEXT:     kernel "copy_rows" using @route
// CHECK-NEXT:     reads @x[sent((rank + p) mod 2 * 2 + e), :]
// CHECK-NEXT:     writes @recv on (rank + p) mod 2 [grouped(e, rank of 2), :]
// CHECK-NEXT:   tile.tasks @matmul (e, n) in (2, 3) on aic
// CHECK-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
// CHECK-NEXT:     reads @recv[grouped(e, 0 of 1), :], @recv[grouped(e, 0 of 1), :]
// CHECK-NEXT:     writes @h[grouped(e, 0 of 1), block(n by 16)]
// CHECK-NEXT:   tile.tasks @swiglu (e) in (2) on aiv
// CHECK-NEXT:     kernel "swiglu" using @route
// CHECK-NEXT:     reads @h[grouped(e, 0 of 1), :]
// CHECK-NEXT:     writes @a[grouped(e, 0 of 1), :]
// CHECK-NEXT:   queue.event @put_done (2) count 2
// CHECK-NEXT:   queue.event @matmul_done (2) count 3
// CHECK-NEXT:   queue.signal @put (p, e) to @put_done (e) on (rank + p) mod 2
// CHECK-NEXT:   queue.signal @matmul (e, n) to @matmul_done (e)
// CHECK-NEXT:   queue.wait @matmul (e, n) for @put_done (e)
// CHECK-NEXT:   queue.wait @swiglu (e) for @matmul_done (e)
// CHECK-NEXT:   queue.order aic {
// CHECK-NEXT:     [@matmul[0]],
// CHECK-NEXT:     [@matmul[1]],
// CHECK-NEXT:     [@matmul[2]],
// CHECK-NEXT:     [@matmul[3]],
// CHECK-NEXT:     [@matmul[4]],
// CHECK-NEXT:     [@matmul[5]],
// CHECK-NEXT:     [] times 18
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.order aiv {
// CHECK-NEXT:     [@put[0]],
// CHECK-NEXT:     [@put[2]],
// CHECK-NEXT:     [@put[1]],
// CHECK-NEXT:     [@put[3]],
// CHECK-NEXT:     [@swiglu[0]],
// CHECK-NEXT:     [@swiglu[1]],
// CHECK-NEXT:     [] times 42
// CHECK-NEXT:   }
// CHECK-NEXT: }

// OPERATOR-LABEL: queue.program @layer ranks 2 machine "ascend-a2" {
// OPERATOR:        tile.tasks @put (p, e) in (2, 2) on aiv
// OPERATOR-NEXT:     kernel "copy_rows" using @route
// OPERATOR-NEXT:     reads @x[sent(p * 2 + e), :]
// OPERATOR-NEXT:     writes @recv on p [grouped(e, rank of 2), :]
// OPERATOR-NEXT:   tile.tasks @matmul (e, n) in (2, 3) on aic
// OPERATOR-NEXT:     kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 16 : i64, transpose_rhs = 0 : i64} using @route
// OPERATOR-NEXT:     reads @recv[grouped(e, 0 of 1), :], @recv[grouped(e, 0 of 1), :]
// OPERATOR-NEXT:     writes @h[grouped(e, 0 of 1), block(n by 16)]
// OPERATOR-NEXT:   tile.tasks @swiglu (e) in (2) on aiv
// OPERATOR-NEXT:     kernel "swiglu" using @route
// OPERATOR-NEXT:     reads @h[grouped(e, 0 of 1), :]
// OPERATOR-NEXT:     writes @a[grouped(e, 0 of 1), :]
// OPERATOR-NEXT:   queue.event @put_done (2) count 2
// OPERATOR-NEXT:   queue.event @matmul_done (2) count 3
// OPERATOR-NEXT:   queue.signal @put (p, e) to @put_done (e) on p
// OPERATOR-NEXT:   queue.signal @matmul (e, n) to @matmul_done (e)
// OPERATOR-NEXT:   queue.wait @matmul (e, n) for @put_done (e)
// OPERATOR-NEXT:   queue.wait @swiglu (e) for @matmul_done (e)
// OPERATOR-NEXT:   queue.order aic {
// OPERATOR-NEXT:     [@matmul[0]],
// OPERATOR-NEXT:     [@matmul[1]],
// OPERATOR-NEXT:     [@matmul[2]],
// OPERATOR-NEXT:     [@matmul[3]],
// OPERATOR-NEXT:     [@matmul[4]],
// OPERATOR-NEXT:     [@matmul[5]],
// OPERATOR-NEXT:     [] times 18
// OPERATOR-NEXT:   }
// OPERATOR-NEXT:   queue.order aiv {
// OPERATOR-NEXT:     [@put[0]],
// OPERATOR-NEXT:     [@put[1]],
// OPERATOR-NEXT:     [@put[2]],
// OPERATOR-NEXT:     [@put[3]],
// OPERATOR-NEXT:     [@swiglu[0]],
// OPERATOR-NEXT:     [@swiglu[1]],
// OPERATOR-NEXT:     [] times 42
// OPERATOR-NEXT:   }
// OPERATOR-NEXT: }

// -----

// Two families that wait for the same events share them; other events, other thresholds or other indices have names of their own.
tile.program @shared ranks 1 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x6xi32>
  tile.buffer @d workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (r) in (5) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
  tile.tasks @q (r) in (5) on aiv
    kernel "count_tokens"
    reads @a[r, :]
    writes @b[r, :]
  tile.tasks @r (i) in (5) on aiv
    kernel "count_tokens"
    reads @a[i, :]
    writes @c[i, :]
  tile.tasks @s () in () on aiv
    kernel "count_tokens"
    reads @a[:, :]
    writes @d[0, :]
  tile.tasks @t (g) in (2) on aiv
    kernel "count_tokens"
    reads @a[g * 3, :]
    writes @d[g + 1, :]
  tile.dependence @p (r) -> @q (r) on @a
    events (5) from (r) to (r) count 1
  tile.dependence @p (r) -> @r (i) on @a
    events (5) from (r) to (i) count 1
  tile.dependence @p (r) -> @s () on @a
    events () from () to () count 5
  tile.dependence @p (r) -> @t (g) on @a
    events (2) from (r floordiv 3) to (g) count [3, 2]
}

// CHECK-LABEL: queue.program @shared ranks 1 machine "ascend-a3" {
// CHECK:        tile.tasks @p (r) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @x[r, :]
// CHECK-NEXT:     writes @a[r, :]
// CHECK-NEXT:   tile.tasks @q (r) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @a[r, :]
// CHECK-NEXT:     writes @b[r, :]
// CHECK-NEXT:   tile.tasks @r (i) in (5) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @a[i, :]
// CHECK-NEXT:     writes @c[i, :]
// CHECK-NEXT:   tile.tasks @s () in () on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @a[:, :]
// CHECK-NEXT:     writes @d[0, :]
// CHECK-NEXT:   tile.tasks @t (g) in (2) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @a[g * 3, :]
// CHECK-NEXT:     writes @d[g + 1, :]
// CHECK-NEXT:   queue.event @p_done (5) count 1
// CHECK-NEXT:   queue.event @p_done_1 () count 5
// CHECK-NEXT:   queue.event @p_done_2 (2) count [3, 2]
// CHECK-NEXT:   queue.signal @p (r) to @p_done (r)
// CHECK-NEXT:   queue.signal @p (r) to @p_done_1 ()
// CHECK-NEXT:   queue.signal @p (r) to @p_done_2 (r floordiv 3)
// CHECK-NEXT:   queue.wait @q (r) for @p_done (r)
// CHECK-NEXT:   queue.wait @r (i) for @p_done (i)
// CHECK-NEXT:   queue.wait @s () for @p_done_1 ()
// CHECK-NEXT:   queue.wait @t (g) for @p_done_2 (g)
// CHECK-NEXT:   queue.order aic {
// CHECK-NEXT:     [] times 24
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.order aiv {
// CHECK-NEXT:     [@p[0]],
// CHECK-NEXT:     [@p[1]],
// CHECK-NEXT:     [@p[2]],
// CHECK-NEXT:     [@p[3]],
// CHECK-NEXT:     [@p[4]],
// CHECK-NEXT:     [@q[0]],
// CHECK-NEXT:     [@q[1]],
// CHECK-NEXT:     [@q[2]],
// CHECK-NEXT:     [@q[3]],
// CHECK-NEXT:     [@q[4]],
// CHECK-NEXT:     [@r[0]],
// CHECK-NEXT:     [@r[1]],
// CHECK-NEXT:     [@r[2]],
// CHECK-NEXT:     [@r[3]],
// CHECK-NEXT:     [@r[4]],
// CHECK-NEXT:     [@s[0]],
// CHECK-NEXT:     [@t[0]],
// CHECK-NEXT:     [@t[1]],
// CHECK-NEXT:     [] times 30
// CHECK-NEXT:   }
// CHECK-NEXT: }

// OPERATOR-LABEL: queue.program @shared ranks 1 machine "ascend-a2" {
// OPERATOR:        tile.tasks @p (r) in (5) on aiv
// OPERATOR-NEXT:     kernel "count_tokens"
// OPERATOR-NEXT:     reads @x[r, :]
// OPERATOR-NEXT:     writes @a[r, :]
// OPERATOR-NEXT:   tile.tasks @q (r) in (5) on aiv
// OPERATOR-NEXT:     kernel "count_tokens"
// OPERATOR-NEXT:     reads @a[r, :]
// OPERATOR-NEXT:     writes @b[r, :]
// OPERATOR-NEXT:   tile.tasks @r (i) in (5) on aiv
// OPERATOR-NEXT:     kernel "count_tokens"
// OPERATOR-NEXT:     reads @a[i, :]
// OPERATOR-NEXT:     writes @c[i, :]
// OPERATOR-NEXT:   tile.tasks @s () in () on aiv
// OPERATOR-NEXT:     kernel "count_tokens"
// OPERATOR-NEXT:     reads @a[:, :]
// OPERATOR-NEXT:     writes @d[0, :]
// OPERATOR-NEXT:   tile.tasks @t (g) in (2) on aiv
// OPERATOR-NEXT:     kernel "count_tokens"
// OPERATOR-NEXT:     reads @a[g * 3, :]
// OPERATOR-NEXT:     writes @d[g + 1, :]
// OPERATOR-NEXT:   queue.event @p_done (5) count 1
// OPERATOR-NEXT:   queue.event @p_done_1 () count 5
// OPERATOR-NEXT:   queue.event @p_done_2 (2) count [3, 2]
// OPERATOR-NEXT:   queue.signal @p (r) to @p_done (r)
// OPERATOR-NEXT:   queue.signal @p (r) to @p_done_1 ()
// OPERATOR-NEXT:   queue.signal @p (r) to @p_done_2 (r floordiv 3)
// OPERATOR-NEXT:   queue.wait @q (r) for @p_done (r)
// OPERATOR-NEXT:   queue.wait @r (i) for @p_done (i)
// OPERATOR-NEXT:   queue.wait @s () for @p_done_1 ()
// OPERATOR-NEXT:   queue.wait @t (g) for @p_done_2 (g)
// OPERATOR-NEXT:   queue.order aic {
// OPERATOR-NEXT:     [] times 24
// OPERATOR-NEXT:   }
// OPERATOR-NEXT:   queue.order aiv {
// OPERATOR-NEXT:     [@p[0]],
// OPERATOR-NEXT:     [@p[1]],
// OPERATOR-NEXT:     [@p[2]],
// OPERATOR-NEXT:     [@p[3]],
// OPERATOR-NEXT:     [@p[4]],
// OPERATOR-NEXT:     [@q[0]],
// OPERATOR-NEXT:     [@q[1]],
// OPERATOR-NEXT:     [@q[2]],
// OPERATOR-NEXT:     [@q[3]],
// OPERATOR-NEXT:     [@q[4]],
// OPERATOR-NEXT:     [@r[0]],
// OPERATOR-NEXT:     [@r[1]],
// OPERATOR-NEXT:     [@r[2]],
// OPERATOR-NEXT:     [@r[3]],
// OPERATOR-NEXT:     [@r[4]],
// OPERATOR-NEXT:     [@s[0]],
// OPERATOR-NEXT:     [@t[0]],
// OPERATOR-NEXT:     [@t[1]],
// OPERATOR-NEXT:     [] times 30
// OPERATOR-NEXT:   }
// OPERATOR-NEXT: }

// -----

// One family needs no dependence. 100 tasks on 48 cores: the first cores have one more.
tile.program @many ranks 1 {
  tile.buffer @x input : !tile.buffer<100x6xi32>
  tile.buffer @a output : !tile.buffer<100x6xi32>
  tile.tasks @p (r) in (100) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
}

// CHECK-LABEL: queue.program @many ranks 1 machine "ascend-a3" {
// CHECK:        tile.tasks @p (r) in (100) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @x[r, :]
// CHECK-NEXT:     writes @a[r, :]
// CHECK-NEXT:   queue.order aic {
// CHECK-NEXT:     [] times 24
// CHECK-NEXT:   }
// CHECK-NEXT:   queue.order aiv {
// CHECK-NEXT:     [@p[0, 48, 96]],
// CHECK-NEXT:     [@p[1, 49, 97]],
// CHECK-NEXT:     [@p[2, 50, 98]],
// CHECK-NEXT:     [@p[3, 51, 99]],
// CHECK-NEXT:     [@p[4, 52]],
// CHECK-NEXT:     [@p[5, 53]],
// CHECK-NEXT:     [@p[6, 54]],
// CHECK-NEXT:     [@p[7, 55]],
// CHECK-NEXT:     [@p[8, 56]],
// CHECK-NEXT:     [@p[9, 57]],
// CHECK-NEXT:     [@p[10, 58]],
// CHECK-NEXT:     [@p[11, 59]],
// CHECK-NEXT:     [@p[12, 60]],
// CHECK-NEXT:     [@p[13, 61]],
// CHECK-NEXT:     [@p[14, 62]],
// CHECK-NEXT:     [@p[15, 63]],
// CHECK-NEXT:     [@p[16, 64]],
// CHECK-NEXT:     [@p[17, 65]],
// CHECK-NEXT:     [@p[18, 66]],
// CHECK-NEXT:     [@p[19, 67]],
// CHECK-NEXT:     [@p[20, 68]],
// CHECK-NEXT:     [@p[21, 69]],
// CHECK-NEXT:     [@p[22, 70]],
// CHECK-NEXT:     [@p[23, 71]],
// CHECK-NEXT:     [@p[24, 72]],
// CHECK-NEXT:     [@p[25, 73]],
// CHECK-NEXT:     [@p[26, 74]],
// CHECK-NEXT:     [@p[27, 75]],
// CHECK-NEXT:     [@p[28, 76]],
// CHECK-NEXT:     [@p[29, 77]],
// CHECK-NEXT:     [@p[30, 78]],
// CHECK-NEXT:     [@p[31, 79]],
// CHECK-NEXT:     [@p[32, 80]],
// CHECK-NEXT:     [@p[33, 81]],
// CHECK-NEXT:     [@p[34, 82]],
// CHECK-NEXT:     [@p[35, 83]],
// CHECK-NEXT:     [@p[36, 84]],
// CHECK-NEXT:     [@p[37, 85]],
// CHECK-NEXT:     [@p[38, 86]],
// CHECK-NEXT:     [@p[39, 87]],
// CHECK-NEXT:     [@p[40, 88]],
// CHECK-NEXT:     [@p[41, 89]],
// CHECK-NEXT:     [@p[42, 90]],
// CHECK-NEXT:     [@p[43, 91]],
// CHECK-NEXT:     [@p[44, 92]],
// CHECK-NEXT:     [@p[45, 93]],
// CHECK-NEXT:     [@p[46, 94]],
// CHECK-NEXT:     [@p[47, 95]]
// CHECK-NEXT:   }
// CHECK-NEXT: }

// OPERATOR-LABEL: queue.program @many ranks 1 machine "ascend-a2" {
// OPERATOR:        tile.tasks @p (r) in (100) on aiv
// OPERATOR-NEXT:     kernel "count_tokens"
// OPERATOR-NEXT:     reads @x[r, :]
// OPERATOR-NEXT:     writes @a[r, :]
// OPERATOR-NEXT:   queue.order aic {
// OPERATOR-NEXT:     [] times 24
// OPERATOR-NEXT:   }
// OPERATOR-NEXT:   queue.order aiv {
// OPERATOR-NEXT:     [@p[0, 48, 96]],
// OPERATOR-NEXT:     [@p[1, 49, 97]],
// OPERATOR-NEXT:     [@p[2, 50, 98]],
// OPERATOR-NEXT:     [@p[3, 51, 99]],
// OPERATOR-NEXT:     [@p[4, 52]],
// OPERATOR-NEXT:     [@p[5, 53]],
// OPERATOR-NEXT:     [@p[6, 54]],
// OPERATOR-NEXT:     [@p[7, 55]],
// OPERATOR-NEXT:     [@p[8, 56]],
// OPERATOR-NEXT:     [@p[9, 57]],
// OPERATOR-NEXT:     [@p[10, 58]],
// OPERATOR-NEXT:     [@p[11, 59]],
// OPERATOR-NEXT:     [@p[12, 60]],
// OPERATOR-NEXT:     [@p[13, 61]],
// OPERATOR-NEXT:     [@p[14, 62]],
// OPERATOR-NEXT:     [@p[15, 63]],
// OPERATOR-NEXT:     [@p[16, 64]],
// OPERATOR-NEXT:     [@p[17, 65]],
// OPERATOR-NEXT:     [@p[18, 66]],
// OPERATOR-NEXT:     [@p[19, 67]],
// OPERATOR-NEXT:     [@p[20, 68]],
// OPERATOR-NEXT:     [@p[21, 69]],
// OPERATOR-NEXT:     [@p[22, 70]],
// OPERATOR-NEXT:     [@p[23, 71]],
// OPERATOR-NEXT:     [@p[24, 72]],
// OPERATOR-NEXT:     [@p[25, 73]],
// OPERATOR-NEXT:     [@p[26, 74]],
// OPERATOR-NEXT:     [@p[27, 75]],
// OPERATOR-NEXT:     [@p[28, 76]],
// OPERATOR-NEXT:     [@p[29, 77]],
// OPERATOR-NEXT:     [@p[30, 78]],
// OPERATOR-NEXT:     [@p[31, 79]],
// OPERATOR-NEXT:     [@p[32, 80]],
// OPERATOR-NEXT:     [@p[33, 81]],
// OPERATOR-NEXT:     [@p[34, 82]],
// OPERATOR-NEXT:     [@p[35, 83]],
// OPERATOR-NEXT:     [@p[36, 84]],
// OPERATOR-NEXT:     [@p[37, 85]],
// OPERATOR-NEXT:     [@p[38, 86]],
// OPERATOR-NEXT:     [@p[39, 87]],
// OPERATOR-NEXT:     [@p[40, 88]],
// OPERATOR-NEXT:     [@p[41, 89]],
// OPERATOR-NEXT:     [@p[42, 90]],
// OPERATOR-NEXT:     [@p[43, 91]],
// OPERATOR-NEXT:     [@p[44, 92]],
// OPERATOR-NEXT:     [@p[45, 93]],
// OPERATOR-NEXT:     [@p[46, 94]],
// OPERATOR-NEXT:     [@p[47, 95]]
// OPERATOR-NEXT:   }
// OPERATOR-NEXT: }
