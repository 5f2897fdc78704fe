// RUN: HPMOE_INVALID

// Text that is no operation.
abc

// CHECK: syntax-invalid.mlir:[[# @LINE + 1]]:1: error: Operation abc is not registered
// -----

// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:15: error: Operation foo.bar is not registered
%a = "foo.bar"() : () -> i32

// -----

%a = moe.swiglu %b : tensor<?x6xf32, #moe.grouped<3 rows>> -> tensor<?x3xf32, #moe.grouped<3 rows>>

// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:1: error: values used but not defined: [%b]
// -----

// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:30: error: 'moe.rout' is not registered
"test.op"() : () -> !moe.rout<3>

// -----

// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:40: error: Expected ','
"test.op"() : () -> !moe.route<3 tokens>

// -----

// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:30: error: Expected shape type.
"test.op"() : () -> tensor<3xx

// -----

// An operation that ends too early, found by its own check.
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu: Expected 1 operand, but got 0
"moe.swiglu"() : () -> ()
