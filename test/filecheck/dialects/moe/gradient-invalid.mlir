// RUN: HPMOE_INVALID

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

// Rows of tokens are what is sent.
%route, %x, %gate = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.tokens<6 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// CHECK: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch_weighted: x: expected tensor<?xNxTYPE, #moe.tokens<7 rows>>, found tensor<?x5xf32, #moe.tokens<6 rows>>
"moe.dispatch_weighted"(%x, %gate, %route) : (tensor<?x5xf32, #moe.tokens<6 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x5xf32, #moe.grouped<20 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %x, %gate = "test.op"() : () -> (!route, tensor<?x5xi32, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch_weighted: x: expected elements of bf16, f16, f32 or f64, found i32
"moe.dispatch_weighted"(%x, %gate, %route) : (tensor<?x5xi32, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x5xi32, #moe.grouped<20 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

// One weight for each of a token's experts, in the type in which rows are summed.
%route, %x, %gate = "test.op"() : () -> (!route, tensor<?x5xf16, #moe.tokens<7 rows>>, tensor<?x3xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch_weighted: gate: expected tensor<?x2xf32, #moe.tokens<7 rows>>, found tensor<?x3xf32, #moe.tokens<7 rows>>
"moe.dispatch_weighted"(%x, %gate, %route) : (tensor<?x5xf16, #moe.tokens<7 rows>>, tensor<?x3xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x5xf16, #moe.grouped<20 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %x, %gate = "test.op"() : () -> (!route, tensor<?x5xf64, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch_weighted: gate: expected tensor<?x2xf64, #moe.tokens<7 rows>>, found tensor<?x2xf32, #moe.tokens<7 rows>>
"moe.dispatch_weighted"(%x, %gate, %route) : (tensor<?x5xf64, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x5xf64, #moe.grouped<20 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

// As many rows as the route says, in the same width.
%route, %x, %gate = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.dispatch_weighted: received: expected tensor<?x5xf32, #moe.grouped<20 rows>>, found tensor<?x5xf32, #moe.grouped<19 rows>>
"moe.dispatch_weighted"(%x, %gate, %route) : (tensor<?x5xf32, #moe.tokens<7 rows>>, tensor<?x2xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x5xf32, #moe.grouped<19 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

// What comes back are rows of experts.
%route, %y = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.sent<14 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.collect: y: expected tensor<?xNxTYPE, #moe.grouped<20 rows>>, found tensor<?x5xf32, #moe.sent<14 rows>>
"moe.collect"(%y, %route) : (tensor<?x5xf32, #moe.sent<14 rows>>, !route) -> tensor<?x5xf32, #moe.sent<14 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %y = "test.op"() : () -> (!route, tensor<?x5xi32, #moe.grouped<20 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.collect: y: expected elements of bf16, f16, f32 or f64, found i32
"moe.collect"(%y, %route) : (tensor<?x5xi32, #moe.grouped<20 rows>>, !route) -> tensor<?x5xi32, #moe.sent<14 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %y = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.grouped<20 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.collect: back: expected tensor<?x5xf32, #moe.sent<14 rows>>, found tensor<?x4xf32, #moe.sent<14 rows>>
"moe.collect"(%y, %route) : (tensor<?x5xf32, #moe.grouped<20 rows>>, !route) -> tensor<?x4xf32, #moe.sent<14 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

// Copies of tokens lie in send order.
%route, %back = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.grouped<20 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.sum_copies: back: expected tensor<?xNxTYPE, #moe.sent<14 rows>>, found tensor<?x5xf32, #moe.grouped<20 rows>>
"moe.sum_copies"(%back, %route) : (tensor<?x5xf32, #moe.grouped<20 rows>>, !route) -> tensor<?x5xf32, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %back = "test.op"() : () -> (!route, tensor<?x5xi32, #moe.sent<14 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.sum_copies: back: expected elements of bf16, f16, f32 or f64, found i32
"moe.sum_copies"(%back, %route) : (tensor<?x5xi32, #moe.sent<14 rows>>, !route) -> tensor<?x5xi32, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %back = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.sent<14 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.sum_copies: out: expected tensor<?x5xf32, #moe.tokens<7 rows>>, found tensor<?x5xbf16, #moe.tokens<7 rows>>
"moe.sum_copies"(%back, %route) : (tensor<?x5xf32, #moe.sent<14 rows>>, !route) -> tensor<?x5xbf16, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

// A weight's gradient is of its row and of the token's gradient, which is as wide.
%route, %back, %dout = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.grouped<20 rows>>, tensor<?x5xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.gate_gradient: back: expected tensor<?xNxTYPE, #moe.sent<14 rows>>, found tensor<?x5xf32, #moe.grouped<20 rows>>
"moe.gate_gradient"(%back, %dout, %route) : (tensor<?x5xf32, #moe.grouped<20 rows>>, tensor<?x5xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x2xf32, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %back, %dout = "test.op"() : () -> (!route, tensor<?x5xi32, #moe.sent<14 rows>>, tensor<?x5xi32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.gate_gradient: back: expected elements of bf16, f16, f32 or f64, found i32
"moe.gate_gradient"(%back, %dout, %route) : (tensor<?x5xi32, #moe.sent<14 rows>>, tensor<?x5xi32, #moe.tokens<7 rows>>, !route) -> tensor<?x2xf32, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %back, %dout = "test.op"() : () -> (!route, tensor<?x5xf32, #moe.sent<14 rows>>, tensor<?x4xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.gate_gradient: dout: expected tensor<?x5xf32, #moe.tokens<7 rows>>, found tensor<?x4xf32, #moe.tokens<7 rows>>
"moe.gate_gradient"(%back, %dout, %route) : (tensor<?x5xf32, #moe.sent<14 rows>>, tensor<?x4xf32, #moe.tokens<7 rows>>, !route) -> tensor<?x2xf32, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>

%route, %back, %dout = "test.op"() : () -> (!route, tensor<?x5xbf16, #moe.sent<14 rows>>, tensor<?x5xbf16, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.gate_gradient: dgate: expected tensor<?x2xf32, #moe.tokens<7 rows>>, found tensor<?x2xbf16, #moe.tokens<7 rows>>
"moe.gate_gradient"(%back, %dout, %route) : (tensor<?x5xbf16, #moe.sent<14 rows>>, tensor<?x5xbf16, #moe.tokens<7 rows>>, !route) -> tensor<?x2xbf16, #moe.tokens<7 rows>>

// -----

// A gate half and an up half, of received rows.
%h, %da = "test.op"() : () -> (tensor<?x6xf32, #moe.tokens<7 rows>>, tensor<?x3xf32, #moe.tokens<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu_grad: h: expected tensor<?xNxTYPE, #moe.grouped<C rows>>, found tensor<?x6xf32, #moe.tokens<7 rows>>
"moe.swiglu_grad"(%h, %da) : (tensor<?x6xf32, #moe.tokens<7 rows>>, tensor<?x3xf32, #moe.tokens<7 rows>>) -> tensor<?x6xf32, #moe.tokens<7 rows>>

// -----

%h, %da = "test.op"() : () -> (tensor<?x5xf32, #moe.grouped<7 rows>>, tensor<?x3xf32, #moe.grouped<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu_grad: h: expected an even width, a gate half and an up half, found 5
"moe.swiglu_grad"(%h, %da) : (tensor<?x5xf32, #moe.grouped<7 rows>>, tensor<?x3xf32, #moe.grouped<7 rows>>) -> tensor<?x5xf32, #moe.grouped<7 rows>>

// -----

%h, %da = "test.op"() : () -> (tensor<?x6xf32, #moe.grouped<7 rows>>, tensor<?x6xf32, #moe.grouped<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu_grad: da: expected tensor<?x3xf32, #moe.grouped<7 rows>>, found tensor<?x6xf32, #moe.grouped<7 rows>>
"moe.swiglu_grad"(%h, %da) : (tensor<?x6xf32, #moe.grouped<7 rows>>, tensor<?x6xf32, #moe.grouped<7 rows>>) -> tensor<?x6xf32, #moe.grouped<7 rows>>

// -----

%h, %da = "test.op"() : () -> (tensor<?x6xf32, #moe.grouped<7 rows>>, tensor<?x3xf32, #moe.grouped<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.swiglu_grad: dh: expected tensor<?x6xf32, #moe.grouped<7 rows>>, found tensor<?x3xf32, #moe.grouped<7 rows>>
"moe.swiglu_grad"(%h, %da) : (tensor<?x6xf32, #moe.grouped<7 rows>>, tensor<?x3xf32, #moe.grouped<7 rows>>) -> tensor<?x3xf32, #moe.grouped<7 rows>>

// -----

// What is added has one type, and a place.
%a, %b = "test.op"() : () -> (tensor<?x6xf32, #moe.grouped<7 rows>>, tensor<?x3xf32, #moe.grouped<7 rows>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.add: operand 'rhs' at position 1 does not verify: attribute tensor<?x6xf32, #moe.grouped<7 rows>> expected from variable 'T', but got tensor<?x3xf32, #moe.grouped<7 rows>>
"moe.add"(%a, %b) : (tensor<?x6xf32, #moe.grouped<7 rows>>, tensor<?x3xf32, #moe.grouped<7 rows>>) -> tensor<?x3xf32, #moe.grouped<7 rows>>

// -----

%a = "test.op"() : () -> tensor<4x6xf32>
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.add: sum: expected rows or weights of experts, found tensor<4x6xf32>
"moe.add"(%a, %a) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>

// -----

%a = "test.op"() : () -> tensor<?x2xi32, #moe.tokens<7 rows>>
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.add: sum: expected elements of bf16, f16, f32 or f64, found i32
"moe.add"(%a, %a) : (tensor<?x2xi32, #moe.tokens<7 rows>>, tensor<?x2xi32, #moe.tokens<7 rows>>) -> tensor<?x2xi32, #moe.tokens<7 rows>>

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!a = tensor<?x4xf16, #moe.grouped<20 rows>>
!w = tensor<3x4x4xf16, #moe.experts<6 over 2 ranks>>

// Only gradients of weights are accumulated.
%route, %a, %w = "test.op"() : () -> (!route, !a, !w)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: expected into only with transpose_lhs, found it without
"moe.grouped_matmul"(%a, %w, %route, %a) : (!a, !w, !route, !a) -> !a

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!a = tensor<?x4xf16, #moe.grouped<20 rows>>
!w = tensor<3x4x4xf16, #moe.experts<6 over 2 ranks>>

// And that in f32.
%route, %a, %sum = "test.op"() : () -> (!route, !a, !w)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: product: expected tensor<3x4x4xf32, #moe.experts<6 over 2 ranks>>, found tensor<3x4x4xf16, #moe.experts<6 over 2 ranks>>
"moe.grouped_matmul"(%a, %a, %route, %sum) <{transpose_lhs}> : (!a, !a, !route, !w) -> !w

// -----

!route = !moe.route<7 tokens, top 2, 6 experts over 2 ranks, 20 rows>
!a = tensor<?x4xf16, #moe.grouped<20 rows>>

%route, %a, %sum = "test.op"() : () -> (!route, !a, tensor<3x4x4xf16, #moe.experts<6 over 2 ranks>>)
// CHECK-NEXT: gradient-invalid.mlir:[[# @LINE + 1]]:1: error: moe.grouped_matmul: accumulator: expected tensor<3x4x4xf32, #moe.experts<6 over 2 ranks>>, found tensor<3x4x4xf16, #moe.experts<6 over 2 ranks>>
"moe.grouped_matmul"(%a, %a, %route, %sum) <{transpose_lhs}> : (!a, !a, !route, tensor<3x4x4xf16, #moe.experts<6 over 2 ranks>>) -> tensor<3x4x4xf32, #moe.experts<6 over 2 ranks>>
