// Streams: launch n + 1 of a rank starts as soon as the rank's launch n has ended.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu_model/entry.h"
#include "detectors/order_detectors.h"
#include "functional/functional_mode.h"
#include "model/cache.h"
#include "model/engine.h"
#include "model/observer.h"
#include "model/pending.h"
#include "model/timeline.h"
#include "run/job.h"

namespace cpu_model {

struct Stream {
  std::vector<const Launch*> launches;
  size_t next = 0;
  int running = 0;  // cores
  std::vector<uint8_t*> pointers;
  std::vector<uint32_t> scalars;
};

static const Job* job = nullptr;
static std::vector<Stream> streams;

[[noreturn]] static void Die(const std::string& message) {
  std::fprintf(stderr, "cpu model: %s\n", message.c_str());
  std::exit(2);
}

static Allocation* Find(int rank, const std::string& name) {
  for (Allocation& allocation : TheEngine().allocations) {
    if (allocation.rank == rank && allocation.name == name) return &allocation;
  }
  return nullptr;
}

static void Load(Allocation& allocation, int64_t data) {
  if (data == kNoData) {
    TheModel().Initialise(GlobalData(allocation.begin), allocation.bytes);
  } else {
    std::memcpy(GlobalData(allocation.begin), job->data + data, allocation.bytes);
  }
  TheObserver().OnInitialise(allocation, data != kNoData);
}

// An array of the same size keeps its address, so that stale cache lines are noticed.
static void PlaceArray(int rank, const Array& array) {
  Allocation* allocation = Find(rank, array.name);
  const bool writable = array.result != kNoData;
  if (allocation != nullptr && allocation->bytes != array.bytes) {
    TheObserver().OnFree(*allocation);
    auto& allocations = TheEngine().allocations;
    allocations.erase(allocations.begin() + (allocation - allocations.data()));
    allocation = nullptr;
  }
  if (allocation == nullptr) allocation = &Allocate(array.name, rank, array.bytes, false, writable);
  if (!writable) TheObserver().OnFree(*allocation);
  allocation->writable = writable;
  Load(*allocation, array.data);
}

static void KernelMain(void* argument) {
  Core& core = *static_cast<Core*>(argument);
  const Stream& stream = streams[core.rank];
  kEntry.call(stream.pointers.data(), stream.scalars.data());
  TheModel().EndKernel(core);
}

static void Bind(Stream& stream, const Launch& launch) {
  stream.pointers.clear();
  stream.scalars.clear();
  for (int i = 0; i < kEntry.pointer_count; ++i) {
    const Allocation* allocation = Find(launch.rank, kEntry.pointers[i]);
    if (allocation == nullptr)
      Die(std::string("no memory for argument '") + kEntry.pointers[i] + "'");
    stream.pointers.push_back(GlobalData(allocation->begin));
  }
  for (int i = 0; i < kEntry.scalar_count; ++i) {
    bool found = false;
    for (const ScalarValue& scalar : launch.scalars) {
      if (scalar.name != kEntry.scalars[i]) continue;
      stream.scalars.push_back(scalar.value);
      TheObserver().OnScalarArgument(launch.rank, static_cast<int>(stream.next) + 1, scalar.name,
                                     scalar.value);
      found = true;
    }
    if (!found) Die(std::string("no value for argument '") + kEntry.scalars[i] + "'");
  }
}

static void ResetCore(Core& core) {
  ++core.effects;
  core.marker = -1;
  core.where = Where("", 0);
  core.api = "the kernel's start";
  for (bool& fresh : core.fresh) fresh = true;
  core.initialised = false;
  core.atomic = false;
  core.running = true;
}

static void StartNext(int rank) {
  Stream& stream = streams[rank];
  if (stream.next == stream.launches.size()) return;
  const Launch& launch = *stream.launches[stream.next];
  TheObserver().OnLaunch(rank, static_cast<int>(stream.next) + 1);
  for (const Memory& memory : job->memories) {
    if (memory.rank != rank || memory.symmetric || memory.data != kNoData) continue;
    Load(*Find(rank, memory.name), kNoData);
  }
  for (const Array& array : launch.arrays) PlaceArray(rank, array);
  Bind(stream, launch);
  TheObserver().OnKernelStart(rank);
  for (const auto& core : TheEngine().cores) {
    if (core->rank != rank) continue;
    ResetCore(*core);
    core->fiber.Start(KernelMain, core.get());
    TheModel().MakeReady(*core);
    ++stream.running;
  }
}

static void Store(int rank, const std::string& name, int64_t result) {
  const Allocation* allocation = Find(rank, name);
  if (allocation == nullptr) Die("no memory '" + name + "' to read back");
  std::memcpy(job->results + result, GlobalData(allocation->begin), allocation->bytes);
}

static void Finished(Core& core) {
  const int rank = core.rank;
  Stream& stream = streams[rank];
  if (--stream.running != 0) return;
  CheckRankEnd(rank);
  LandRank(rank);
  const Launch& launch = *stream.launches[stream.next];
  for (const Array& array : launch.arrays) {
    if (array.result != kNoData) Store(rank, array.name, array.result);
  }
  for (const ReadBack& read_back : launch.read_backs) {
    Store(rank, read_back.name, read_back.result);
  }
  ++stream.next;
  StartNext(rank);
}

static void MakeCores() {
  Engine& engine = TheEngine();
  for (int rank = 0; rank < TheModel().RanksThatRun(); ++rank) {
    for (int i = 0; i < engine.CoresOfRank(); ++i) {
      auto core = std::make_unique<Core>();
      core->number = static_cast<int>(engine.cores.size());
      core->rank = rank;
      core->place = i;
      core->aic = i < engine.aics;
      core->index = core->aic ? i : i - engine.aics;
      core->group = core->aic ? i : core->index / 2;
      core->sub = core->aic ? 0 : core->index % 2;
      engine.cores.push_back(std::move(core));
    }
  }
}

// Bytes of addresses that are enough for the memories of any rank.
static uint64_t BytesOfRank() {
  constexpr uint64_t kEach = 16384;
  std::vector<uint64_t> bytes(TheEngine().ranks);
  for (const Memory& memory : job->memories) bytes[memory.rank] += memory.bytes + kEach;
  for (const Launch& launch : job->launches) {
    for (const Array& array : launch.arrays) bytes[launch.rank] += array.bytes + kEach;
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

static std::unique_ptr<Model> MakeMode(const Job& the_job) {
  if (the_job.timed) return std::make_unique<TimedMode>(*the_job.timed);
  return std::make_unique<FunctionalMode>(the_job.seed, the_job.late_ranks);
}

// Detectors belong to functional runs.
static std::unique_ptr<Observer> MakeObserver(const Job& the_job) {
  if (the_job.timed) return std::make_unique<Observer>();
  if (the_job.checks) return std::make_unique<OrderDetectors>(the_job.counters);
  return std::make_unique<EventCounterDetector>(the_job.counters);
}

void RunJob(const Job& the_job) {
  job = &the_job;
  Engine& engine = TheEngine();
  const std::unique_ptr<Model> mode = MakeMode(*job);
  SetModel(mode.get());
  MakeCores();
  const std::unique_ptr<Observer> observer = MakeObserver(*job);
  SetObserver(observer.get());
  mode->Start(BytesOfRank());
  SetMemoryModel(job->weak, job->seed);
  SetEarlyFills(job->early, job->seed);
  for (const Memory& memory : job->memories) {
    const bool writable = memory.symmetric || memory.data == kNoData;
    Load(Allocate(memory.name, memory.rank, memory.bytes, memory.symmetric, writable), memory.data);
  }
  for (const Fill& fill : job->fills) {
    const Allocation* allocation = Find(fill.rank, fill.name);
    if (allocation == nullptr) Die("no memory '" + fill.name + "' to fill");
    std::memcpy(GlobalData(allocation->begin + fill.offset), job->data + fill.data, fill.bytes);
  }
  observer->OnStart();
  streams.resize(engine.ranks);
  for (const Launch& launch : job->launches) streams[launch.rank].launches.push_back(&launch);
  for (int rank = 0; rank < engine.ranks; ++rank) StartNext(rank);
  mode->Run(Finished);
  observer->OnEnd(static_cast<int>(job->launches.size()) / engine.ranks);
}

}  // namespace cpu_model
