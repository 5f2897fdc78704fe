// The part of the symmetric-memory library that the host side calls, with the real names and
// signatures. The functions record their calls: see fake.h.
#ifndef FAKE_CANN_SHMEM_H_
#define FAKE_CANN_SHMEM_H_

#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"

#define ACLSHMEM_MAX_IP_PORT_LEN 64
#define ACLSHMEM_PAGE_SIZE (1024UL * 1024UL * 2)
#define ALIGN_TO(size, page) (((size) + (page) - 1) / (page) * (page))

extern "C" {

enum aclshmemx_bootstrap_t : unsigned int { ACLSHMEMX_INIT_WITH_DEFAULT = 1U << 0 };
enum aclshmemx_init_status_t {
  ACLSHMEM_STATUS_NOT_INITIALIZED = 0,
  ACLSHMEM_STATUS_SHM_CREATED,
  ACLSHMEM_STATUS_IS_INITIALIZED,
};

typedef struct aclshmemx_init_attr_t {
  int my_pe;
  int n_pes;
  char ip_port[ACLSHMEM_MAX_IP_PORT_LEN] = {};
  uint64_t local_mem_size;
} aclshmemx_init_attr_t;

int aclshmemx_init_attr(aclshmemx_bootstrap_t bootstrap_flags, aclshmemx_init_attr_t* attributes);
int aclshmem_finalize(void);
int aclshmemx_init_status(void);
int aclshmem_n_pes(void);
void* aclshmem_align(size_t alignment, size_t size);
void aclshmem_free(void* ptr);
void* aclshmem_ptr(void* ptr, int pe);
void aclshmem_barrier_all(void);
}

#endif  // FAKE_CANN_SHMEM_H_
