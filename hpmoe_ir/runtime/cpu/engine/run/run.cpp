// Streams: launch n + 1 of a rank starts as soon as its own launch n has ended.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "clocks/timing.h"
#include "cpu_model/entry.h"
#include "detectors/shadow.h"
#include "model/engine.h"
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

static Region* Find(int rank, const std::string& name) {
  for (Region& region : TheEngine().regions) {
    if (region.rank == rank && region.name == name) return &region;
  }
  return nullptr;
}

static void Load(Region& region, int64_t data) {
  if (data == kNoData) {
    if (timing) return;  // nobody looks, and most of it is never touched
    FillPattern(GlobalData(region.begin), region.bytes);
  } else {
    std::memcpy(GlobalData(region.begin), job->data + data, region.bytes);
  }
  ResetShadow(region, data != kNoData);
}

// The same address again where the size is the same: stale cache lines must show.
static void PlaceArray(int rank, const Array& array) {
  Region* region = Find(rank, array.name);
  const bool writable = array.result != kNoData;
  if (region != nullptr && region->bytes != array.bytes) {
    DropShadow(*region);
    auto& regions = TheEngine().regions;
    regions.erase(regions.begin() + (region - regions.data()));
    region = nullptr;
  }
  if (region == nullptr) region = &AddRegion(array.name, rank, array.bytes, false, writable);
  if (!writable) DropShadow(*region);
  region->writable = writable;
  Load(*region, array.data);
}

static void KernelMain(void* argument) {
  Core& core = *static_cast<Core*>(argument);
  const Stream& stream = streams[core.rank];
  kEntry.call(stream.pointers.data(), stream.scalars.data());
  if (timing) timed::End(core);
}

static void Bind(Stream& stream, const Launch& launch) {
  stream.pointers.clear();
  stream.scalars.clear();
  for (int i = 0; i < kEntry.pointer_count; ++i) {
    const Region* region = Find(launch.rank, kEntry.pointers[i]);
    if (region == nullptr) Die(std::string("no memory for argument '") + kEntry.pointers[i] + "'");
    stream.pointers.push_back(GlobalData(region->begin));
  }
  for (int i = 0; i < kEntry.scalar_count; ++i) {
    bool found = false;
    for (const ScalarValue& scalar : launch.scalars) {
      if (scalar.name != kEntry.scalars[i]) continue;
      stream.scalars.push_back(scalar.value);
      if (scalar.name == job->counters.launch) {
        CheckLaunchNumber(launch.rank, static_cast<int>(stream.next) + 1, scalar.value);
      }
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
  CheckCountersAtStart(rank, static_cast<int>(stream.next) + 1);
  for (const Memory& memory : job->memories) {
    if (memory.rank != rank || memory.symmetric || memory.data != kNoData) continue;
    Load(*Find(rank, memory.name), kNoData);
  }
  for (const Array& array : launch.arrays) PlaceArray(rank, array);
  Bind(stream, launch);
  NoteLaunch(rank);
  for (const auto& core : TheEngine().cores) {
    if (core->rank != rank) continue;
    ResetCore(*core);
    core->fiber.Start(KernelMain, core.get());
    MakeReady(*core);
    ++stream.running;
  }
}

static void Store(int rank, const std::string& name, int64_t result) {
  const Region* region = Find(rank, name);
  if (region == nullptr) Die("no memory '" + name + "' to read back");
  std::memcpy(job->results + result, GlobalData(region->begin), region->bytes);
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
  const int ranks = timing_job.mirror ? 1 : engine.ranks;
  for (int rank = 0; rank < ranks; ++rank) {
    for (int i = 0; i < engine.blocks * 3; ++i) {
      auto core = std::make_unique<Core>();
      core->number = static_cast<int>(engine.cores.size());
      core->rank = rank;
      core->aic = i < engine.blocks;
      core->index = core->aic ? i : i - engine.blocks;
      core->block = core->aic ? i : core->index / 2;
      core->sub = core->aic ? 0 : core->index % 2;
      engine.cores.push_back(std::move(core));
    }
  }
}

// Enough addresses for the memories of any rank.
static uint64_t BytesOfRank() {
  constexpr uint64_t kEach = 16384;
  std::vector<uint64_t> bytes(TheEngine().ranks);
  for (const Memory& memory : job->memories) bytes[memory.rank] += memory.bytes + kEach;
  for (const Launch& launch : job->launches) {
    for (const Array& array : launch.arrays) bytes[launch.rank] += array.bytes + kEach;
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

void RunJob(const Job& the_job) {
  job = &the_job;
  Engine& engine = TheEngine();
  MakeCores();
  if (engine.limits.checks) {
    StartOrder();
    StartShadow();
  }
  SeedScheduler(job->seed);
  if (timing) timed::Start(BytesOfRank());
  SetMemoryModel(job->weak, job->seed);
  for (const Memory& memory : job->memories) {
    const bool writable = memory.symmetric || memory.data == kNoData;
    Load(AddRegion(memory.name, memory.rank, memory.bytes, memory.symmetric, writable),
         memory.data);
  }
  for (const Fill& fill : job->fills) {
    const Region* region = Find(fill.rank, fill.name);
    if (region == nullptr) Die("no memory '" + fill.name + "' to fill");
    std::memcpy(GlobalData(region->begin + fill.offset), job->data + fill.data, fill.bytes);
  }
  DeclareCounters(job->counters);
  streams.resize(engine.ranks);
  for (const Launch& launch : job->launches) streams[launch.rank].launches.push_back(&launch);
  for (int rank = 0; rank < engine.ranks; ++rank) StartNext(rank);
  if (timing) {
    timed::Run(Finished);
    return;
  }
  RunCores(Finished);
  CheckCountersAtEnd(static_cast<int>(job->launches.size()) / engine.ranks);
}

}  // namespace cpu_model

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s JOB_DIRECTORY\n", argv[0]);
    return 2;
  }
  const std::string directory = argv[1];
  cpu_model::SetReportPath(directory + "/fault.json");
  const cpu_model::Job job = cpu_model::ReadJob(directory);
  cpu_model::InstallSignalHandlers(cpu_model::TheEngine().limits.seconds);
  cpu_model::RunJob(job);
  cpu_model::WriteTimeline(directory + "/timeline.bin");
  return 0;
}
