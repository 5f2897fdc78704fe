tile.program @p ranks 2 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (i) in (5) on aiv
    kernel "count_tokens"
    reads @x[i, :]
    writes @b[i, :]
}
