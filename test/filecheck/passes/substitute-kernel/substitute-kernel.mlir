// RUN: hpmoe-opt %s --split-input-file -p 'substitute-kernel{kernel=copy_rows by=swiglu}' | filecheck %s

// Each family that runs the kernel runs the other one; regions and the families beside it stay.
tile.program @p ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @b workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @n workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (e, g) in (3, 2) on aiv
    kernel "copy_rows" using @route
    reads @a[grouped(e, g of 2), :]
    writes @b[grouped(e, g of 2), :]
  tile.tasks @q (b) in (4) on aiv
    kernel "count_tokens"
    reads @n[b, :]
    writes @n[b + 1, :]
  tile.tasks @r () in () on aiv
    kernel "copy_rows"
    reads @b[:, :]
    writes @a[:, :]
  tile.dependence @p (e, g) -> @r () on @b
    events () from () to () count 6
}

// CHECK:      tile.program @p ranks 2 {
// CHECK-NEXT:   tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @a workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @b workspace : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @n workspace : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.tasks @p (e, g) in (3, 2) on aiv
// CHECK-NEXT:     kernel "swiglu" using @route
// CHECK-NEXT:     reads @a[grouped(e, g of 2), :]
// CHECK-NEXT:     writes @b[grouped(e, g of 2), :]
// CHECK-NEXT:   tile.tasks @q (b) in (4) on aiv
// CHECK-NEXT:     kernel "count_tokens"
// CHECK-NEXT:     reads @n[b, :]
// CHECK-NEXT:     writes @n[b + 1, :]
// CHECK-NEXT:   tile.tasks @r () in () on aiv
// CHECK-NEXT:     kernel "swiglu"
// CHECK-NEXT:     reads @b[:, :]
// CHECK-NEXT:     writes @a[:, :]
// CHECK-NEXT:   tile.dependence @p (e, g) -> @r () on @b
// CHECK-NEXT:     events () from () to () count 6
// CHECK-NEXT: }

// -----

// Queues stay as they are too.
queue.program @p ranks 2 machine "ascend-a3" {
  tile.buffer @a workspace : !tile.buffer<7x48xbf16>
  tile.buffer @b workspace : !tile.buffer<7x48xbf16>
  tile.tasks @p () in () on aiv
    kernel "copy_rows"
    reads @a[:, :]
    writes @b[:, :]
  queue.event @p_done () count 1
  queue.signal @p () to @p_done ()
  queue.order aiv {
    [@p[0]],
    [] times 47
  }
}

// CHECK:      queue.program @p ranks 2 machine "ascend-a3" {
// CHECK-NEXT:   tile.buffer @a workspace : !tile.buffer<7x48xbf16>
// CHECK-NEXT:   tile.buffer @b workspace : !tile.buffer<7x48xbf16>
// CHECK-NEXT:   tile.tasks @p () in () on aiv
// CHECK-NEXT:     kernel "swiglu"
// CHECK-NEXT:     reads @a[:, :]
// CHECK-NEXT:     writes @b[:, :]
// CHECK-NEXT:   queue.event @p_done () count 1
// CHECK-NEXT:   queue.signal @p () to @p_done ()
// CHECK-NEXT:   queue.order aiv {
// CHECK-NEXT:     [@p[0]],
// CHECK-NEXT:     [] times 47
// CHECK-NEXT:   }
// CHECK-NEXT: }
