// The toolkit's basic API without its high-level parts, which need generated tiling headers.
#ifndef TOOLKIT_KERNEL_OPERATOR_H_
#define TOOLKIT_KERNEL_OPERATOR_H_

#include "device_compiler.h"

// Printing and dumping are left out: they overload on address spaces, which g++ does not have.
#define ASCENDC_MODULE_OPERATOR_DUMP_TENSOR_INTERFACE_IMPL_H
#define IMPL_UTILS_DEBUG_ASC_AICORE_DUMP_IMPL_H

// clang-format off
#include "basic_api/kernel_tensor.h"
#include "basic_api/kernel_operator_data_copy_intf.h"
#include "basic_api/kernel_operator_mm_intf.h"
#include "basic_api/kernel_operator_fixpipe_intf.h"
#include "basic_api/kernel_operator_block_sync_intf.h"
#include "basic_api/kernel_operator_cache_intf.h"
#include "basic_api/kernel_operator_common_intf.h"
#include "basic_api/kernel_operator_set_atomic_intf.h"
#include "basic_api/kernel_operator_sys_var_intf.h"
#include "basic_api/kernel_operator_vec_binary_intf.h"
#include "basic_api/kernel_operator_vec_binary_scalar_intf.h"
#include "basic_api/kernel_operator_vec_unary_intf.h"
#include "basic_api/kernel_operator_vec_ternary_scalar_intf.h"
#include "basic_api/kernel_operator_vec_duplicate_intf.h"
#include "basic_api/kernel_operator_vec_vconv_intf.h"
#include "basic_api/kernel_operator_dump_tensor_intf.h"
// clang-format on

namespace AscendC {
void PrintTimeStamp(uint32_t descId);  // among the parts that are left out
}  // namespace AscendC

#endif  // TOOLKIT_KERNEL_OPERATOR_H_
