// RUN: REJECTED hpmoe-opt %s -p credit-empty-puts | filecheck %s --match-full-lines

// Queues are too late: who may rely on a put has been decided.
// CHECK: credit-empty-puts-invalid.mlir:[[# @LINE + 1]]:1: error: credit-empty-puts: expected IR at the tile level, found queue.program of the queue level; credit-empty-puts comes before assign-queues
queue.program @p ranks 1 machine "ascend-a3" {
}
