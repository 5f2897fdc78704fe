tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @second () in () on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @b[4, :]
  tile.tasks @first (i) in (3) on aiv
    kernel "count_tokens"
    reads @b[4, :]
    writes @b[i, :]
  tile.dependence @first (i) -> @second () on @b
    events () from () to () count 3
}
