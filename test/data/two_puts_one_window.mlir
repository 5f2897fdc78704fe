// Two exchanges through one window, by hand: what put1 has sent is taken before put2 overwrites it.
// Launches take the copies of the window in turn: a rank that puts in launch n + 2 has taken what
// its peer put in launch n + 1, so the peer has ended launch n.
queue.program @two_puts ranks 2 machine "ascend-a3" counters at 2048 {
  tile.buffer @x1 input : !tile.buffer<2x8x32xbf16>
  tile.buffer @x2 input : !tile.buffer<2x8x32xbf16>
  tile.buffer @out1 output : !tile.buffer<2x8x32xbf16>
  tile.buffer @out2 output : !tile.buffer<2x8x32xbf16>
  tile.buffer @recv window copies 2 at 0 : !tile.buffer<2x8x32xbf16>
  tile.tasks @put1 (p) in (2) on aiv
    kernel "copy_rows"
    reads @x1[p, :, :]
    writes @recv on p [rank, :, :]
  tile.tasks @take1 (s) in (2) on aiv
    kernel "copy_rows"
    reads @recv[s, :, :]
    writes @out1[s, :, :]
  tile.tasks @put2 (p) in (2) on aiv
    kernel "copy_rows"
    reads @x2[p, :, :]
    writes @recv on p [rank, :, :]
  tile.tasks @take2 (s) in (2) on aiv
    kernel "copy_rows"
    reads @recv[s, :, :]
    writes @out2[s, :, :]
  queue.event @put1_done (2) count 1 line 0
  queue.event @take1_done (2) count 1 line 2
  queue.event @put2_done (2) count 1 line 4
  queue.signal @put1 (p) to @put1_done (rank) on p
  queue.signal @take1 (s) to @take1_done (rank) on s
  queue.signal @put2 (p) to @put2_done (rank) on p
  queue.wait @take1 (s) for @put1_done (s)
  queue.wait @put2 (p) for @take1_done (p)
  queue.wait @take2 (s) for @put2_done (s)
  queue.order aic {
    [] times 24
  }
  queue.order aiv {
    [@put1[0]],
    [@put1[1]],
    [@take1[0]],
    [@take1[1]],
    [@put2[0]],
    [@put2[1]],
    [@take2[0]],
    [@take2[1]],
    [] times 40
  }
}
