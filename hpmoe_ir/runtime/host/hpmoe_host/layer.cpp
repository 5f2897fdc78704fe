#include "hpmoe_host/layer.h"

#include <array>

#include "hpmoe/machine.h"
#include "hpmoe_host/failure.h"
#include "shmem.h"

namespace hpmoe_host {
namespace {

constexpr size_t kWindowAlignment = hpmoe::kL2Line;  // copies between devices are fastest with it
constexpr size_t kCounterLine = hpmoe::kCounterLine;
constexpr size_t kStatusWords = kCounterLine / sizeof(int32_t);
constexpr int32_t kNotWritten = -1;

// Words of the status, and values of the first.
enum StatusWord { kCode, kRank, kRows, kCapacity };
enum StatusCode : int32_t { kStatusOk = 0, kStatusOverCapacity = 1 };

void CheckCores(aclrtDevAttr attribute, const char* kind, int64_t needed) {
  int32_t device = 0;
  CheckAcl(aclrtGetDevice(&device), "aclrtGetDevice");
  int64_t found = 0;
  CheckAcl(aclrtGetDeviceInfo(static_cast<uint32_t>(device), attribute, &found),
           "aclrtGetDeviceInfo of the number of " + std::string(kind) + " cores");
  Require(found >= needed, "the task table needs " + std::to_string(needed) + " " + kind +
                               " cores, device " + std::to_string(device) + " has " +
                               std::to_string(found) + "; compile with its machine description");
}

// Checks that the device has as many cores as the task table has queues. All of them must run at
// the same time, since tasks wait for each other.
void CheckDevice(const LayerPlan& plan) {
  const int64_t blocks = plan.header[kBlocks];
  CheckCores(ACL_DEV_ATTR_CUBE_CORE_NUM, "AIC", blocks);
  CheckCores(ACL_DEV_ATTR_VECTOR_CORE_NUM, "AIV", hpmoe::kAivPerAic * blocks);
}

void CheckRanks(const LayerPlan& plan) {
  const int status = aclshmemx_init_status();
  Require(status == ACLSHMEM_STATUS_IS_INITIALIZED,
          "the symmetric memory is not initialised, aclshmemx_init_status says " +
              std::to_string(status));
  const int ranks = aclshmem_n_pes();
  Require(ranks == static_cast<int>(plan.header[kRanks]),
          "compiled for " + std::to_string(plan.header[kRanks]) +
              " ranks, the symmetric memory has " + std::to_string(ranks));
}

// Checks that the device can access the windows of every rank by loads and stores. The kernel can't
// check it: on the device an address is computed for every rank.
void CheckReach(void* windows, uint32_t ranks) {
  if (windows == nullptr) return;
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    Require(aclshmem_ptr(windows, static_cast<int>(rank)) != nullptr,
            "the windows of rank " + std::to_string(rank) +
                " are out of reach: aclshmem_ptr has no address for them on this device");
  }
}

}  // namespace

Layer::Layer(const LayerPlan& plan, const void* table, size_t table_bytes) try : plan_(plan) {
  // Local checks come before collective calls, so that one rank's failure leaves no rank waiting.
  CheckTable(table, table_bytes, plan.header);
  CheckDevice(plan);
  CheckRanks(plan);
  table_ = DeviceMemory(table_bytes, "the task table");
  table_.Upload(table, table_bytes, "the task table");
  workspace_ = DeviceMemory(plan.workspace_bytes, "the workspace");
  std::array<int32_t, kStatusWords> unwritten;
  unwritten.fill(kNotWritten);
  status_ = DeviceMemory(sizeof(unwritten), "the status");
  status_.Upload(unwritten.data(), sizeof(unwritten), "the status");
  windows_.Allocate(kWindowAlignment, plan.window_bytes, "the windows");
  CheckReach(windows_.address(), plan.header[kRanks]);
  const size_t counter_bytes =
      plan.header[kEvents] * kCounterLine + GivenUpBytes(plan.header[kBlocks], plan.waits);
  if (counter_bytes != 0) {
    void* counters =
        static_cast<uint8_t*>(windows_.address()) + plan.header[kCounters] * kCounterLine;
    CheckAcl(aclrtMemset(counters, counter_bytes, 0, counter_bytes), "aclrtMemset of the counters");
  }
  // After this barrier any rank may signal, so counters are 0 on all ranks before it.
  aclshmem_barrier_all();
} catch (const Failure& failure) {
  throw Failure(std::string(plan.name) + ": " + failure.what());
}

void Layer::LaunchBy(std::initializer_list<Argument> given, uint32_t tokens,
                     const std::function<void(const KernelCall&)>& enqueue) {
  Require(broken_.empty(), Prefixed("can't be launched any more, since " + broken_));
  Require(tokens <= plan_.tokens, Prefixed("expected at most " + std::to_string(plan_.tokens) +
                                           " tokens, found " + std::to_string(tokens)));
  for (const Argument& argument : given) {
    Require(argument.address != nullptr || (argument.of_tokens && tokens == 0),
            Prefixed(std::string(argument.name) +
                     ": expected an address in device memory, found a null pointer"));
  }
  // Clears an error of an earlier call, which would be taken for the launch's.
  (void)aclrtGetLastError(ACL_RT_THREAD_LEVEL);
  // Wraps around at 2^32, as the counters and their targets do.
  const uint32_t launch = launch_ + 1;
  enqueue({plan_.header[kBlocks], status_.address(), table_.address(), workspace_.address(),
           windows_.address(), tokens, launch});
  try {
    CheckAcl(aclrtGetLastError(ACL_RT_THREAD_LEVEL), "launch " + std::to_string(launch));
  } catch (const Failure& failure) {
    Break(failure.what());
  }
  launch_ = launch;
}

void Layer::CheckStatus(aclrtStream stream) {
  Require(broken_.empty(), Prefixed("has no status, since " + broken_));
  Require(launch_ != 0, Prefixed("has no status before the first launch"));
  const std::string name = "launch " + std::to_string(launch_);
  std::array<int32_t, kStatusWords> status;
  try {
    CheckAcl(aclrtSynchronizeStream(stream), "aclrtSynchronizeStream after " + name);
    status_.Download(status.data(), sizeof(status), "the status");
  } catch (const Failure& failure) {
    Break(failure.what() + GivenUp());
  }
  if (status[kCode] == kStatusOverCapacity) {
    throw OverCapacity(Prefixed(name + ": rank " + std::to_string(status[kRank]) +
                                " would receive " + std::to_string(status[kRows]) +
                                " rows, its capacity is " + std::to_string(status[kCapacity]) +
                                " rows; every rank stopped before anything was sent"));
  }
  if (status[kCode] != kStatusOk) {
    Break(name + " wrote status " + std::to_string(status[kCode]) + ", expected 0 or 1");
  }
}

std::string Layer::GivenUp() const {
  const uint32_t blocks = plan_.header[kBlocks];
  const uint64_t bytes = GivenUpBytes(blocks, plan_.waits);
  if (bytes == 0) return "";
  const uint8_t* lines = static_cast<const uint8_t*>(windows_.address()) +
                         (plan_.header[kCounters] + plan_.header[kEvents]) * kCounterLine;
  std::vector<uint32_t> words(bytes / sizeof(uint32_t));
  // After a trap the device may not answer any more; the report then has no lines of cores.
  if (aclrtMemcpy(words.data(), bytes, lines, bytes, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS) {
    return "";
  }
  return GivenUpText(words, blocks, launch_, plan_.waits);
}

void Layer::Close() {
  std::string first;
  const auto note = [&first](aclError error, const char* call) {
    try {
      CheckAcl(error, call);
    } catch (const Failure& failure) {
      if (first.empty()) first = failure.what();
    }
  };
  // This rank's writes end here; freeing symmetric memory waits for the other ranks.
  note(aclrtSynchronizeDevice(), "aclrtSynchronizeDevice");
  windows_.Free();
  note(status_.Free(), "aclrtFree of the status");
  note(workspace_.Free(), "aclrtFree of the workspace");
  note(table_.Free(), "aclrtFree of the task table");
  if (!first.empty()) throw Failure(Prefixed(first));
}

void Layer::Break(const std::string& text) {
  broken_ = text;
  throw Failure(Prefixed(text));
}

std::string Layer::Prefixed(const std::string& text) const {
  return std::string(plan_.name) + ": " + text;
}

}  // namespace hpmoe_host
