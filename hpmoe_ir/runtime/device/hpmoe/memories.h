// The memories of a core, from the machine description that a program is compiled for. Generated
// source defines their sizes before it includes a header; kernels choose their blocks by them.
#ifndef HPMOE_MEMORIES_H_
#define HPMOE_MEMORIES_H_

#include "hpmoe/machine.h"

#if !defined(HPMOE_L0A_BYTES) || !defined(HPMOE_L0B_BYTES) || !defined(HPMOE_L0C_BYTES) || \
    !defined(HPMOE_L1_BYTES) || !defined(HPMOE_UB_BYTES)
#error \
    "define HPMOE_L0A_BYTES, _L0B_, _L0C_, _L1_ and _UB_BYTES as the machine description has them"
#endif

namespace hpmoe {

// Bytes that kernels may use, from address 0 on.
constexpr uint32_t kL0aBytes = HPMOE_L0A_BYTES;  // [memory] l0a
constexpr uint32_t kL0bBytes = HPMOE_L0B_BYTES;  // [memory] l0b
constexpr uint32_t kL0cBytes = HPMOE_L0C_BYTES;  // [memory] l0c
constexpr uint32_t kL1Bytes = HPMOE_L1_BYTES;    // [memory] l1 without l1_reserved
constexpr uint32_t kUbBytes = HPMOE_UB_BYTES;    // [memory] ub without ub_reserved

// Kernels keep lists in UB: counts of experts, row numbers, sums of copies. Where UB is too small
// for lists of full length, all are cut to a half, a quarter and so on, and with them the largest
// number of experts, copies and credited events. The lists of one kernel take at most kUbLists,
// those of GateGradient, and what is not a list at most kUbRest. The compiler has the same numbers:
// hpmoe_ir/kernels/device.py.
constexpr uint32_t kUbLists = 172032;
constexpr uint32_t kUbRest = 512;
constexpr uint32_t kListCut = kUbBytes >= kUbLists + kUbRest       ? 1
                              : kUbBytes >= kUbLists / 2 + kUbRest ? 2
                              : kUbBytes >= kUbLists / 4 + kUbRest ? 4
                              : kUbBytes >= kUbLists / 8 + kUbRest ? 8
                                                                   : 16;
static_assert(kUbBytes >= kUbLists / kListCut + kUbRest, "UB holds the lists of kernels");

// Largest number of experts whose counts the routing kernels hold in UB.
constexpr uint32_t kMaxExperts = 4096 / kListCut;
// Largest number of copies of a token.
constexpr uint32_t kMaxCopies = 1024 / kListCut;
// Largest number of events of a credit.
constexpr uint32_t kMaxCredits = 4096 / kListCut;

}  // namespace hpmoe

#endif  // HPMOE_MEMORIES_H_
