// RUN: HPMOE_ROUNDTRIP

// Each role of a layer's arguments and results, and each that belongs to a forward function.
func.func @layer(%0: i32 {moe.role = #moe.role<tokens>}, %1: i32 {moe.role = #moe.role<expert_ids>}, %2: i32 {moe.role = #moe.role<gate_weights>}, %3: i32 {moe.role = #moe.role<up_weights>}, %4: i32 {moe.role = #moe.role<down_weights>}) -> (i32 {moe.role = #moe.role<output>}, i32 {moe.role = #moe.role<saved>}, i32 {moe.role = #moe.role<status>}) {
  func.return %0, %1, %2 : i32, i32, i32
}
func.func @gradients(%0: i32 {moe.role = #moe.role<gradient of result 0>}, %1: i32 {moe.role = #moe.role<argument 12>}, %2: i32 {moe.role = #moe.role<result 1>}, %3: i32 {moe.role = #moe.role<accumulator of argument 3>}) -> (i32 {moe.role = #moe.role<gradient of argument 3>}) attributes {moe.forward = @layer} {
  func.return %0 : i32
}

// CHECK:      func.func @layer(%0: i32 {moe.role = #moe.role<tokens>}, %1: i32 {moe.role = #moe.role<expert_ids>}, %2: i32 {moe.role = #moe.role<gate_weights>}, %3: i32 {moe.role = #moe.role<up_weights>}, %4: i32 {moe.role = #moe.role<down_weights>}) -> (i32 {moe.role = #moe.role<output>}, i32 {moe.role = #moe.role<saved>}, i32 {moe.role = #moe.role<status>}) {
// CHECK:      func.func @gradients(%0: i32 {moe.role = #moe.role<gradient of result 0>}, %1: i32 {moe.role = #moe.role<argument 12>}, %2: i32 {moe.role = #moe.role<result 1>}, %3: i32 {moe.role = #moe.role<accumulator of argument 3>}) -> (i32 {moe.role = #moe.role<gradient of argument 3>}) attributes {moe.forward = @layer} {
