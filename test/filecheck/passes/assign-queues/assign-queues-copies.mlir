// RUN: hpmoe-opt %s -p assign-queues | filecheck %s

// A put into two windows, one of them with two copies: its signals have two counters, whichever of
// the windows the first of the dependences is on. What the own rank is told has one.
tile.program @two_windows ranks 2 {
  tile.buffer @x input : !tile.buffer<2x8x32xbf16>
  tile.buffer @a window : !tile.buffer<2x8x32xbf16>
  tile.buffer @b window copies 2 : !tile.buffer<2x8x32xbf16>
  tile.buffer @out1 workspace : !tile.buffer<2x8x32xbf16>
  tile.buffer @out2 workspace : !tile.buffer<2x8x32xbf16>
  tile.buffer @out output : !tile.buffer<2x8x32xbf16>
  tile.tasks @put (p) in (2) on aiv
    kernel "place_tokens"
    reads @x[p, :, :], @x[p, :, :]
    writes @a on p [rank, :, :], @b on p [rank, :, :]
    scalars (rank)
  tile.tasks @take1 (s) in (2) on aiv
    kernel "copy_rows"
    reads @a[s, :, :]
    writes @out1[s, :, :]
  tile.tasks @take2 (s) in (2) on aiv
    kernel "copy_rows"
    reads @b[s, :, :]
    writes @out2[s, :, :]
  tile.tasks @sum (s) in (2) on aiv
    kernel "add_rows"
    reads @out1[s, :, :], @out2[s, :, :]
    writes @out[s, :, :]
  tile.dependence @put (p) -> @take1 (s) on @a
    events (2) from (rank) on p to (s) count 1
  tile.dependence @put (p) -> @take2 (s) on @b
    events (2) from (rank) on p to (s) count 1
  tile.dependence @take1 (s) -> @sum (s) on @out1
    events (2) from (s) to (s) count 1
  tile.dependence @take2 (s) -> @sum (s) on @out2
    events (2) from (s) to (s) count 1
}

// CHECK:        queue.event @put_done (2) count 1 copies 2
// CHECK-NEXT:   queue.event @take1_done (2) count 1{{$}}
// CHECK-NEXT:   queue.event @take2_done (2) count 1{{$}}
// CHECK-NEXT:   queue.signal @put (p) to @put_done (rank) on (rank + p) mod 2
// CHECK-NEXT:   queue.signal @take1 (s) to @take1_done (s)
// CHECK-NEXT:   queue.signal @take2 (s) to @take2_done (s)
// CHECK-NEXT:   queue.wait @take1 (s) for @put_done (s)
// CHECK-NEXT:   queue.wait @take2 (s) for @put_done (s)
