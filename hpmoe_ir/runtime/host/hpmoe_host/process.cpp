#include "hpmoe_host/process.h"

#include <algorithm>

#include "acl/acl.h"
#include "hpmoe_host/failure.h"
#include "shmem.h"

namespace hpmoe_host {

Process::Process(const ProcessOptions& options) : device_(options.device) {
  try {
    Start(options);
  } catch (const Failure&) {
    try {
      Close();
    } catch (const Failure&) {
      // The first failure is the one to report.
    }
    throw;
  }
}

Process::~Process() {
  try {
    Close();
  } catch (const Failure&) {
    // A caller that needs the failure calls Close itself.
  }
}

void Process::Start(const ProcessOptions& options) {
  aclshmemx_init_attr_t attributes;
  Require(options.address.size() < sizeof(attributes.ip_port),
          "address: expected less than " + std::to_string(sizeof(attributes.ip_port)) +
              " characters, found '" + options.address + "'");
  CheckAcl(aclInit(nullptr), "aclInit");
  steps_ = 1;
  CheckAcl(aclrtSetDevice(device_), "aclrtSetDevice of device " + std::to_string(device_));
  steps_ = 2;
  attributes.my_pe = options.rank;
  attributes.n_pes = options.ranks;
  std::fill(std::begin(attributes.ip_port), std::end(attributes.ip_port), '\0');
  std::copy(options.address.begin(), options.address.end(), attributes.ip_port);
  attributes.local_mem_size =
      ALIGN_TO(std::max<uint64_t>(options.symmetric_bytes, 1), ACLSHMEM_PAGE_SIZE);
  CheckShmem(aclshmemx_init_attr(ACLSHMEMX_INIT_WITH_DEFAULT, &attributes),
             "aclshmemx_init_attr of rank " + std::to_string(options.rank) + " of " +
                 std::to_string(options.ranks) + " at " + options.address);
  steps_ = 3;
}

void Process::Close() {
  std::string first;
  const auto note = [&first](const auto& check) {
    try {
      check();
    } catch (const Failure& failure) {
      if (first.empty()) first = failure.what();
    }
  };
  const int steps = steps_;
  steps_ = 0;
  if (steps >= 3) note([] { CheckShmem(aclshmem_finalize(), "aclshmem_finalize"); });
  if (steps >= 2) note([this] { CheckAcl(aclrtResetDevice(device_), "aclrtResetDevice"); });
  if (steps >= 1) note([] { CheckAcl(aclFinalize(), "aclFinalize"); });
  if (!first.empty()) throw Failure(first);
}

}  // namespace hpmoe_host
