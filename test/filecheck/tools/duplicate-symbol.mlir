// RUN: HPMOE_INVALID

// Two functions of one name, in a module that the text does not have.
func.func @dup() { func.return }
// CHECK: duplicate-symbol.mlir:[[# @LINE + 1]]:1: error: func.func: the symbol @dup is defined twice, first by a func.func at duplicate-symbol.mlir:[[# @LINE - 1]]:1; expected different names
func.func @dup() { func.return }

// -----

// In generic text.
"builtin.module"() ({
  "func.func"() <{sym_name = "a", function_type = () -> ()}> ({
    "func.return"() : () -> ()
  }) : () -> ()
  // CHECK-NEXT: duplicate-symbol.mlir:[[# @LINE + 1]]:3: error: func.func: the symbol @a is defined twice, first by a func.func at duplicate-symbol.mlir:[[# @LINE - 3]]:3; expected different names
  "func.func"() <{sym_name = "a", function_type = () -> ()}> ({
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()

// -----

// A function and a program.
func.func @layer() { func.return }
// CHECK-NEXT: duplicate-symbol.mlir:[[# @LINE + 1]]:1: error: tile.program: the symbol @layer is defined twice, first by a func.func at duplicate-symbol.mlir:[[# @LINE - 1]]:1; expected different names
tile.program @layer ranks 1 {
}

// -----

// In a module of a module.
builtin.module {
  func.func @a() { func.return }
  builtin.module {
    func.func @a() { func.return }
    func.func @b() { func.return }
    // CHECK-NEXT: duplicate-symbol.mlir:[[# @LINE + 1]]:5: error: func.func: the symbol @b is defined twice, first by a func.func at duplicate-symbol.mlir:[[# @LINE - 1]]:5; expected different names
    func.func @b() { func.return }
  }
}

// -----

// A family and an event of it.
queue.program @p ranks 1 machine "ascend-a3" {
  tile.buffer @x input : !tile.buffer<2x16xbf16>
  tile.buffer @y output : !tile.buffer<2x16xbf16>
  tile.tasks @a () in () on aiv
    kernel "copy_rows"
    reads @x[:, :]
    writes @y[:, :]
  // CHECK-NEXT: duplicate-symbol.mlir:[[# @LINE + 1]]:3: error: queue.event: the symbol @a is defined twice, first by a tile.tasks at duplicate-symbol.mlir:[[# @LINE - 4]]:3; expected different names
  queue.event @a () count 1
}

// -----

// Three of one name: the second.
tile.program @p ranks 1 {
}
// CHECK-NEXT: duplicate-symbol.mlir:[[# @LINE + 1]]:1: error: tile.program: the symbol @p is defined twice, first by a tile.program at duplicate-symbol.mlir:[[# @LINE - 2]]:1; expected different names
tile.program @p ranks 1 {
}
tile.program @p ranks 1 {
}
