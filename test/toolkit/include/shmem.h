// The device side of the symmetric-memory library.
#ifndef TOOLKIT_SHMEM_H_
#define TOOLKIT_SHMEM_H_

#include "kernel_operator.h"

__gm__ void* aclshmem_ptr(__gm__ void* ptr, int pe);  // used by the library before it declares it

// clang-format off
#include "host_device/shmem_common_types.h"
#include "device/gm2gm/shmem_device_cc.h"
#include "device/gm2gm/shmem_device_mo.h"
#include "device/gm2gm/shmem_device_p2p_sync.h"
#include "device/team/shmem_device_team.h"
#include "device/gm2gm/engine/shmem_device_mte.h"
// clang-format on

#endif  // TOOLKIT_SHMEM_H_
