// RUN: hpmoe-opt %s --split-input-file -p plan-memory | filecheck %s
// RUN: hpmoe-opt %s --split-input-file -p 'plan-memory{reuse=false}' | filecheck %s --check-prefix=APART

// @a is read for the last time before any task writes @c, as @join waits for all of @q: they share memory. Windows never do.
tile.program @full_join ranks 2 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @a workspace : !tile.buffer<5x300xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x200xi32>
  tile.buffer @v window copies 2 : !tile.buffer<5x6xi32>
  tile.buffer @w window : !tile.buffer<5x6xi32>
  tile.tasks @p (r) in (5) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
  tile.tasks @q (r) in (5) on aiv
    kernel "count_tokens"
    reads @a[r, :]
    writes @b[r, :]
  tile.tasks @join (r) in (5) on aiv
    kernel "count_tokens"
    reads @b[:, :]
    writes @c[r, :]
  tile.dependence @p (r) -> @q (r) on @a
    events (5) from (r) to (r) count 1
  tile.dependence @q (r) -> @join (r) on @b
    events () from () to () count 5
  tile.dependence @p (r) -> @join (r) on @a
    events () from () to () count 5
}

// CHECK-LABEL: tile.program @full_join ranks 2 {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @a workspace at 0 : !tile.buffer<5x300xi32>
// CHECK-NEXT:   tile.buffer @b workspace at 6144 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @c workspace at 0 : !tile.buffer<5x200xi32>
// CHECK-NEXT:   tile.buffer @v window copies 2 at 0 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @w window at 512 : !tile.buffer<5x6xi32>

// APART-LABEL: tile.program @full_join ranks 2 {
// APART-NEXT:   tile.buffer @x input : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @a workspace at 0 : !tile.buffer<5x300xi32>
// APART-NEXT:   tile.buffer @b workspace at 10240 : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @c workspace at 6144 : !tile.buffer<5x200xi32>
// APART-NEXT:   tile.buffer @v window copies 2 at 0 : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @w window at 512 : !tile.buffer<5x6xi32>

// -----

// Row by row, one task may write @c while another still reads @a: apart.
tile.program @no_join ranks 2 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @a workspace : !tile.buffer<5x300xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x200xi32>
  tile.tasks @p (r) in (5) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
  tile.tasks @q (r) in (5) on aiv
    kernel "count_tokens"
    reads @a[r, :]
    writes @b[r, :]
  tile.tasks @r (r) in (5) on aiv
    kernel "count_tokens"
    reads @b[r, :]
    writes @c[r, :]
  tile.dependence @p (r) -> @q (r) on @a
    events (5) from (r) to (r) count 1
  tile.dependence @q (r) -> @r (r) on @b
    events (5) from (r) to (r) count 1
}

// CHECK-LABEL: tile.program @no_join ranks 2 {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @a workspace at 0 : !tile.buffer<5x300xi32>
// CHECK-NEXT:   tile.buffer @b workspace at 10240 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @c workspace at 6144 : !tile.buffer<5x200xi32>

// APART-LABEL: tile.program @no_join ranks 2 {
// APART-NEXT:   tile.buffer @x input : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @a workspace at 0 : !tile.buffer<5x300xi32>
// APART-NEXT:   tile.buffer @b workspace at 10240 : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @c workspace at 6144 : !tile.buffer<5x200xi32>

// -----

// A join through peers says nothing of this rank's own tasks: apart.
tile.program @peers ranks 2 {
  tile.buffer @x input : !tile.buffer<5x6xi32>
  tile.buffer @a workspace : !tile.buffer<5x300xi32>
  tile.buffer @b window : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x200xi32>
  tile.tasks @p (r) in (2) on aiv
    kernel "count_tokens"
    reads @x[r, :]
    writes @a[r, :]
  tile.tasks @q (p) in (2) on aiv
    kernel "count_tokens"
    reads @a[p, :]
    writes @b on p [rank, :]
  tile.tasks @r () in () on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @c[0, :]
  tile.dependence @p (r) -> @q (p) on @a
    events (2) from (r) to (p) count 1
  tile.dependence @q (p) -> @r () on @b
    events () from () on p to () count 2
}

// CHECK-LABEL: tile.program @peers ranks 2 {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @a workspace at 0 : !tile.buffer<5x300xi32>
// CHECK-NEXT:   tile.buffer @b window at 0 : !tile.buffer<5x6xi32>
// CHECK-NEXT:   tile.buffer @c workspace at 6144 : !tile.buffer<5x200xi32>

// APART-LABEL: tile.program @peers ranks 2 {
// APART-NEXT:   tile.buffer @x input : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @a workspace at 0 : !tile.buffer<5x300xi32>
// APART-NEXT:   tile.buffer @b window at 0 : !tile.buffer<5x6xi32>
// APART-NEXT:   tile.buffer @c workspace at 6144 : !tile.buffer<5x200xi32>

// -----

// A route has its tables, a window of two copies both; offsets are multiples of 512 bytes. What no task uses takes no room of its own.
tile.program @sizes ranks 2 {
  tile.buffer @route workspace : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
  tile.buffer @small workspace : !tile.buffer<3xi32>
  tile.buffer @rows workspace : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @counts window copies 2 : !tile.buffer<2x150xi32>
  tile.buffer @recv window : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.buffer @tail window : !tile.buffer<1xi32>
}

// CHECK-LABEL: tile.program @sizes ranks 2 {
// CHECK-NEXT:   tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// CHECK-NEXT:   tile.buffer @small workspace at 0 : !tile.buffer<3xi32>
// CHECK-NEXT:   tile.buffer @rows workspace at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x150xi32>
// CHECK-NEXT:   tile.buffer @recv window at 2560 : !tile.buffer<grouped 20 rows, 48xbf16>
// CHECK-NEXT:   tile.buffer @tail window at 4608 : !tile.buffer<1xi32>

// APART-LABEL: tile.program @sizes ranks 2 {
// APART-NEXT:   tile.buffer @route workspace at 2048 : !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
// APART-NEXT:   tile.buffer @small workspace at 2560 : !tile.buffer<3xi32>
// APART-NEXT:   tile.buffer @rows workspace at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
// APART-NEXT:   tile.buffer @counts window copies 2 at 0 : !tile.buffer<2x150xi32>
// APART-NEXT:   tile.buffer @recv window at 2560 : !tile.buffer<grouped 20 rows, 48xbf16>
// APART-NEXT:   tile.buffer @tail window at 4608 : !tile.buffer<1xi32>
