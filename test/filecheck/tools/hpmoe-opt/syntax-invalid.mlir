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

// -----

// A string without an end, of a length that a search with backtracking would never finish.
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:18: error: expected a string that ends on its line, with no escapes but \\, \", \n, \t and two hexadecimal digits
"test.op"() {a = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa} : () -> ()

// -----

// A number that the type of the attribute can't hold.
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:18: error: Integer value 99999999999999999999 is out of range for type i64 which supports values in the range [-9223372036854775808, 18446744073709551616)
"test.op"() {a = 99999999999999999999 : i64} : () -> ()

// -----

// An integer type whose limits would fill the memory.
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:31: error: expected an integer type of at most 4096 bits, found one of 4097
%a = "test.op"() {value = 0 : i4097} : () -> i1

// -----

// An operation inside looks at the attribute that its function lacks.
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:1: error: func.func: property 'function_type' expected in operation 'func.func'
"func.func"() <{sym_name = "f", functyp = () -> ()}> ({
  "func.return"() : () -> ()
}) : () -> ()

// -----

// A block that is named before it is defined, and defined twice.
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 4]]:3: error: re-declaration of block 'next'
func.func @f() {
  "cf.br"()[^next] : () -> ()
^next:
  ^next:
  func.return
}

// -----

"test.op"() : () -> !comm.window
// CHECK-NEXT: syntax-invalid.mlir:[[# @LINE + 1]]:1: error: '<' expected
