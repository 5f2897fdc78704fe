// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=copy_row by=swiglu}' | filecheck %s --match-full-lines --check-prefix=UNKNOWN
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=swiglu by=fast_swiglu}' | filecheck %s --match-full-lines --check-prefix=UNKNOWN-NEW
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=swiglu by=copy_rows}' | filecheck %s --match-full-lines --check-prefix=UNUSED
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=count_tokens by=grouped_matmul}' | filecheck %s --match-full-lines --check-prefix=CORE
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=count_tokens by=copy_rows}' | filecheck %s --match-full-lines --check-prefix=ELEMENTS
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=count_tokens by=place_tokens}' | filecheck %s --match-full-lines --check-prefix=READS
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=exchange_counts by=build_route}' | filecheck %s --match-full-lines --check-prefix=WRITES
// RUN: REJECTED hpmoe-opt %s -p 'substitute-kernel{kernel=count_tokens}' | filecheck %s --match-full-lines --check-prefix=OPTION
// RUN: REJECTED hpmoe-opt %S/../convert-moe-to-comm/convert-moe-to-comm.mlir --split-input-file -p 'substitute-kernel{kernel=swiglu by=copy_rows}' | filecheck %s --match-full-lines --check-prefix=LEVEL

// Names of kernels that nobody registered.
// UNKNOWN: substitute-kernel-invalid.mlir: error: substitute-kernel: unknown kernel 'copy_row', registered: {{.*}}; did you mean 'copy_rows'?
// UNKNOWN-NEW: substitute-kernel-invalid.mlir: error: substitute-kernel: unknown kernel 'fast_swiglu', registered: {{.*}}; did you mean 'swiglu'?

// A kernel that no family runs.
// UNUSED: substitute-kernel-invalid.mlir: error: substitute-kernel: no family of tasks runs kernel 'swiglu'; kernels used: count_tokens

// Kernels that do something else on other tiles.
// CORE: substitute-kernel-invalid.mlir: error: substitute-kernel: kernel 'grouped_matmul' cannot take the place of 'count_tokens': core: expected aiv, found aic
// ELEMENTS: substitute-kernel-invalid.mlir: error: substitute-kernel: kernel 'copy_rows' cannot take the place of 'count_tokens': reads: expected i32, found activation
// READS: substitute-kernel-invalid.mlir: error: substitute-kernel: kernel 'place_tokens' cannot take the place of 'count_tokens': reads: expected i32, found i32, i32
// WRITES: substitute-kernel-invalid.mlir: error: substitute-kernel: kernel 'build_route' cannot take the place of 'exchange_counts': writes: expected i32, found i32, i32

// Both names are needed.
// OPTION: error: pass 'substitute-kernel': expected option 'by'

// The level above has no tasks.
// LEVEL: convert-moe-to-comm.mlir:15:3: error: substitute-kernel: expected IR at the tile level, found moe.route of the moe level; run convert-comm-to-tile before it
// LEVEL-NEXT: convert-moe-to-comm.mlir:52:1: error: substitute-kernel: expected IR at the tile level, found moe.route of the moe level; run convert-comm-to-tile before it
// LEVEL-NEXT: convert-moe-to-comm.mlir:79:1: error: substitute-kernel: expected IR at the tile level, found moe.swiglu of the moe level; run convert-comm-to-tile before it
tile.program @p ranks 2 {
  tile.buffer @b workspace : !tile.buffer<5x6xi32>
  tile.tasks @t (b) in (4) on aiv
    kernel "count_tokens"
    reads @b[b, :]
    writes @b[b + 1, :]
}
