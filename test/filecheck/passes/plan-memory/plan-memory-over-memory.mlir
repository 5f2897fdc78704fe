// RUN: hpmoe-opt %s -p 'plan-memory{over-memory=true}' | filecheck %s

// More than the device memory of ascend-a3, and allowed.
// CHECK-LABEL: tile.program @large ranks 2 {
// CHECK-NEXT:   tile.buffer @x input : !tile.buffer<30000x500000xbf16>
// CHECK-NEXT:   tile.buffer @h workspace at 0 : !tile.buffer<50000x500000xbf16>
tile.program @large ranks 2 {
  tile.buffer @x input : !tile.buffer<30000x500000xbf16>
  tile.buffer @h workspace : !tile.buffer<50000x500000xbf16>
}
