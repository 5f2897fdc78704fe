// RUN: REJECTED hpmoe-opt %s -p 'assign-queues{policy=depthfirst}' | filecheck %s --match-full-lines --check-prefix=POLICY
// RUN: REJECTED hpmoe-opt %s -p 'assign-queues{policy=random}' | filecheck %s --match-full-lines --check-prefix=NO-POLICY
// RUN: REJECTED hpmoe-opt %s -p 'assign-queues{policy=depth-first{ahead=-1}}' | filecheck %s --match-full-lines --check-prefix=AHEAD
// RUN: REJECTED hpmoe-opt %s -p 'assign-queues{machine="ascend-a5"}' | filecheck %s --match-full-lines --check-prefix=MACHINE
// RUN: REJECTED hpmoe-opt %s -p assign-queues | filecheck %s --match-full-lines --check-prefix=DEPENDENCES
// RUN: REJECTED hpmoe-opt %s -p 'insert-dependencies,assign-queues{machine="%S/../inputs/tiny.toml"}' | filecheck %s --match-full-lines --check-prefix=FAMILIES
// RUN: REJECTED hpmoe-opt %S/../inputs/one-family.mlir -p 'assign-queues{machine="%S/../inputs/tiny.toml"}' | filecheck %s --match-full-lines --check-prefix=POINTS
// RUN: REJECTED hpmoe-opt %S/../inputs/backwards.mlir -p 'assign-queues{policy=operator-order}' | filecheck %s --match-full-lines --check-prefix=ORDER
// RUN: REJECTED hpmoe-opt %s -p insert-dependencies,assign-queues,assign-queues | filecheck %s --match-full-lines --check-prefix=TWICE
// RUN: REJECTED hpmoe-opt %S/../inputs/layer.mlir -p assign-queues | filecheck %s --match-full-lines --check-prefix=LEVEL

// Options with values that do not exist.
// POLICY: error: pass 'assign-queues': option 'policy': unknown policy 'depthfirst'; did you mean 'depth-first'?
// NO-POLICY: error: pass 'assign-queues': option 'policy': unknown policy 'random'; known: arrival, depth-first, fill, list, operator-order, overlap, published, serial, tiles, waves
// AHEAD: error: pass 'assign-queues': option 'policy': policy 'depth-first': option 'ahead': expected 0 to 1048576 experts, found -1
// MACHINE: assign-queues-invalid.mlir: error: assign-queues: option 'machine': unknown machine 'ascend-a5'; known: ascend-a2, ascend-a3; did you mean 'ascend-a3'?

// Without dependences nothing would order the families.
// DEPENDENCES: assign-queues-invalid.mlir:31:1: error: assign-queues: @p has no dependences; run insert-dependencies before it

// More than the slots of the task table can number.
// FAMILIES: assign-queues-invalid.mlir: error: assign-queues: at most 1 families of tasks, found 2
// POINTS: one-family.mlir:4:3: error: assign-queues: @p has 5 tasks, at most 4 are possible; use larger tiles

// A task whose turn comes before that of what it waits for.
// ORDER: backwards.mlir: error: assign-queues: policy operator-order puts task 0 of @second before task 2 of @first, which it waits for

// Queues that are there, and tasks that are not.
// TWICE: assign-queues-invalid.mlir:[[# @LINE + 2]]:1: error: assign-queues: expected IR at the tile level, found queue.program of the queue level; it has run already
// LEVEL: layer.mlir:11:3: error: assign-queues: expected IR at the tile level, found moe.route of the moe level; run convert-comm-to-tile before it
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
}
