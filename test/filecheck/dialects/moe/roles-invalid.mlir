// RUN: HPMOE_INVALID

// CHECK: roles-invalid.mlir:[[# @LINE + 1]]:44: error: Expected one of 'accumulator', 'argument', 'down_weights', 'expert_ids', 'gate_weights', 'gradient', 'output', 'result', 'saved', 'status', 'tokens', 'up_weights' as a role
func.func @f(%0: i32 {moe.role = #moe.role<weights>}) {
  func.return
}

// -----

// CHECK-NEXT: roles-invalid.mlir:[[# @LINE + 1]]:64: error: Expected integer literal
func.func @f(%0: i32 {moe.role = #moe.role<gradient of argument>}) {
  func.return
}

// -----

// CHECK-NEXT: roles-invalid.mlir:[[# @LINE + 1]]:51: error: '>' expected
func.func @f(%0: i32 {moe.role = #moe.role<tokens 2>}) {
  func.return
}

// -----

// CHECK-NEXT: roles-invalid.mlir:[[# @LINE + 1]]:59: error: Expected one of 'argument'
func.func @f(%0: i32 {moe.role = #moe.role<accumulator of result 1>}) {
  func.return
}

// -----

// CHECK-NEXT: roles-invalid.mlir:[[# @LINE + 1]]:53: error: Expected integer literal
func.func @f(%0: i32 {moe.role = #moe.role<argument -1>}) {
  func.return
}
