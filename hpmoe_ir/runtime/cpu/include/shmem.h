// The device side of the symmetric-memory library, as far as the CPU model has it.
#ifndef CPU_MODEL_SHMEM_H_
#define CPU_MODEL_SHMEM_H_

#include "kernel_operator.h"

enum aclshmem_signal_op_type_t { ACLSHMEM_SIGNAL_SET, ACLSHMEM_SIGNAL_ADD };
enum aclshmem_cmp_op_type_t {
  ACLSHMEM_CMP_EQ = 0,
  ACLSHMEM_CMP_NE,
  ACLSHMEM_CMP_GT,
  ACLSHMEM_CMP_GE,
  ACLSHMEM_CMP_LT,
  ACLSHMEM_CMP_LE
};

inline int aclshmem_my_pe(void) { return cpu_model::Rank(); }
inline int aclshmem_n_pes(void) { return cpu_model::Ranks(); }

inline __gm__ void* aclshmem_ptr(__gm__ void* ptr, int pe,
                                 cpu_model::Where where = cpu_model::Where()) {
  return reinterpret_cast<void*>(
      cpu_model::TheApi().PeerAddress(reinterpret_cast<uint64_t>(ptr), pe, where));
}

inline void aclshmemx_signal_op(__gm__ int32_t* sig_addr, int32_t signal, int sig_op, int pe,
                                cpu_model::Where where = cpu_model::Where()) {
  if (sig_op != ACLSHMEM_SIGNAL_SET && sig_op != ACLSHMEM_SIGNAL_ADD) {
    cpu_model::Unsupported("aclshmemx_signal_op with an operation other than SET and ADD", where);
  }
  cpu_model::TheApi().Signal(reinterpret_cast<uint64_t>(sig_addr), signal,
                             sig_op == ACLSHMEM_SIGNAL_ADD, pe, where);
}

inline int32_t aclshmem_signal_wait_until(__gm__ int32_t* sig_addr, int cmp, int32_t cmp_val,
                                          cpu_model::Where where = cpu_model::Where()) {
  return cpu_model::TheApi().WaitSignal(reinterpret_cast<uint64_t>(sig_addr), cmp, cmp_val, where);
}

inline void aclshmem_quiet(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().Quiet(where);
}
inline void aclshmem_fence(cpu_model::Where where = cpu_model::Where()) {
  cpu_model::TheApi().Quiet(where);
}

#endif  // CPU_MODEL_SHMEM_H_
