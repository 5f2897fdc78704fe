// RUN: REJECTED hpmoe-opt %s --split-input-file -p insert-dependencies | filecheck %s --match-full-lines

// Tensors: there are no tasks yet.
// CHECK: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:1: error: insert-dependencies: expected IR at the tile level, found comm.window of the comm level; run convert-comm-to-tile before it
%counts = comm.window "counts" per_launch : !comm.window<tensor<2x2x4xi32>>

// -----

// Queues: the dependences have become events.
// CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:1: error: insert-dependencies: expected IR at the tile level, found queue.program of the queue level; insert-dependencies comes before assign-queues
queue.program @p ranks 2 machine "ascend-a3" {
}

// -----

// Dependences that are there already.
// CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:1: error: insert-dependencies: @p has dependences already
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @p () in () on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @b[1, :]
  tile.tasks @q () in () on aiv
    kernel "count_tokens"
    reads @b[1, :]
    writes @b[2, :]
  tile.dependence @p () -> @q () on @b
    events () from () to () count 1
}

// -----

// Tasks of one family are not ordered, so two of them may not write the same.
tile.program @p ranks 2 {
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: task 0 and task 1 of @p both write @b[i, :]; a family's tasks must write different parts, or say `scatter`
  tile.tasks @p (i, j) in (5, 2) on aiv
    kernel "count_tokens"
    reads @a[i, :]
    writes @b[i, :]
}

// -----

// Nor may they on a peer.
tile.program @p ranks 3 {
  tile.buffer @a workspace : !tile.buffer<5x6xi32>
  tile.buffer @b window : !tile.buffer<5x6xi32>
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: task 0 and task 1 of @p both write @b on p [rank, :]; a family's tasks must write different parts, or say `scatter`
  tile.tasks @p (p, i) in (3, 5) on aiv
    kernel "count_tokens"
    reads @a[i, :]
    writes @b on p [rank, :]
}

// -----

// Two ranks write to the same place of a third.
tile.program @p ranks 3 {
  tile.buffer @b window : !tile.buffer<5x6xi32>
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: task 0 on rank 0 and task 0 on rank 1 of @p both write @b on p [4, :]; a family's tasks must write different parts, or say `scatter`
  tile.tasks @p (p) in (3) on aiv
    kernel "count_tokens"
    reads @b[p, :]
    writes @b on p [4, :]
}

// -----

// What a task needs and nobody writes is a mistake, where somebody writes the buffer.
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c workspace : !tile.buffer<5x6xi32>
  tile.tasks @p (i) in (3) on aiv
    kernel "count_tokens"
    reads @c[i, :]
    writes @b[i, :]
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: @q uses a part of @b that no task of @p writes: dim0 3
  tile.tasks @q (i) in (5) on aiv
    kernel "count_tokens"
    reads @b[i, :]
    writes @c[i, :]
}

// -----

// Rank 0 is written by two ranks, rank 1 by none: no threshold is right for both.
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c window : !tile.buffer<5x6xi32>
  tile.tasks @p () in () on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @c on 0 [rank, :]
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: tasks of @p would need thresholds that differ by rank: each rank must be written by as many of them
  tile.tasks @q () in () on aiv
    kernel "exchange_counts"
    reads @c[:, :]
    writes @b[1, :]
}

// -----

// Nothing orders a put after what the peer does with its window.
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.buffer @c window : !tile.buffer<5x6xi32>
  tile.tasks @p () in () on aiv
    kernel "count_tokens"
    reads @c[0, :]
    writes @b[0, :]
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: @q writes @c on p [rank, :], which @p uses before: a put can only be ordered after its own rank's tasks; give it a window of its own
  tile.tasks @q (p) in (2) on aiv
    kernel "count_tokens"
    reads @b[0, :]
    writes @c on p [rank, :]
}

// -----

// A family whose tasks read what others of them write.
tile.program @p ranks 1 {
  tile.buffer @b workspace : !tile.buffer<4x8xi32>
  // CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:3: error: insert-dependencies: task 0 of @p writes @b[i, :], which task 3 reads as @b[(i + 1) mod 4, :]; a family's tasks must write different parts, or say `scatter`
  tile.tasks @p (i) in (4) on aiv
    kernel "count_tokens"
    reads @b[(i + 1) mod 4, :]
    writes @b[i, :]
}

// -----

// More than any machine's memory.
// CHECK-NEXT: insert-dependencies-invalid.mlir:[[# @LINE + 1]]:1: error: insert-dependencies: 100000000000 ranks of 4 tasks: expected fewer, they do not fit into the memory that is left; use larger tiles
tile.program @p ranks 100000000000 {
  tile.buffer @b workspace : !tile.buffer<4x8xi32>
  tile.tasks @p (i) in (4) on aiv
    kernel "count_tokens"
    reads @b[(i + 1) mod 4, :]
    writes @b[i, :]
}
