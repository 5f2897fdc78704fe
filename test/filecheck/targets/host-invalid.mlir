// RUN: REJECTED hpmoe-opt %s --split-input-file -t host | filecheck %s --match-full-lines

// Nothing but queues has a host side.
// CHECK: host-invalid.mlir: error: target host: expected a queue.program, made by lower-moe; found tile.program of the tile level
tile.program @layer ranks 2 {
}

// -----

// Without a status nobody would know of a rank that is over capacity.
// CHECK-NEXT: host-invalid.mlir:[[# @LINE + 1]]:1: error: target host: @layer: expected a result of !tile.buffer<16xi32> with the role status, where the kernel says whether a rank is over capacity, found none
queue.program @layer ranks 2 machine "ascend-a3" counters at 0 {
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}

// -----

// A status of another size.
// CHECK-NEXT: host-invalid.mlir:[[# @LINE + 2]]:3: error: target host: @layer: expected a result of !tile.buffer<16xi32> with the role status, where the kernel says whether a rank is over capacity, found one of !tile.buffer<8xi32>
queue.program @layer ranks 2 machine "ascend-a3" counters at 0 () -> (@status: status) {
  tile.buffer @status output : !tile.buffer<8xi32>
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}

// -----

// A name alone makes no status.
// CHECK-NEXT: host-invalid.mlir:[[# @LINE + 1]]:1: error: target host: @layer: expected a result of !tile.buffer<16xi32> with the role status, where the kernel says whether a rank is over capacity, found none
queue.program @layer ranks 2 machine "ascend-a3" counters at 0 {
  tile.buffer @status output : !tile.buffer<16xi32>
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}

// -----

// The program's name is the kernel's.
// CHECK-NEXT: host-invalid.mlir:[[# @LINE + 1]]:1: error: target host: the name becomes one in C++: expected an identifier that is no keyword, found 'class'
queue.program @class ranks 2 machine "ascend-a3" counters at 0 () -> (@status: status) {
  tile.buffer @status output : !tile.buffer<16xi32>
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}

// -----

// The buffers' names are those of the arguments.
// CHECK-NEXT: host-invalid.mlir:[[# @LINE + 2]]:3: error: target host: the name becomes one in C++: expected an identifier that is no keyword, found 'left hand'
queue.program @layer ranks 2 machine "ascend-a3" counters at 0 (@"left hand") -> (@status: status) {
  tile.buffer @"left hand" input : !tile.buffer<16xi32>
  tile.buffer @status output : !tile.buffer<16xi32>
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}

// -----

// Memory that nobody has planned.
// CHECK-NEXT: host-invalid.mlir: error: target host: @h has no offset; run plan-memory before it
queue.program @layer ranks 2 machine "ascend-a3" counters at 0 () -> (@status: status) {
  tile.buffer @h workspace : !tile.buffer<5x16xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  queue.order aic {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
  queue.order aiv {
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [],
    [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], [], []
  }
}
