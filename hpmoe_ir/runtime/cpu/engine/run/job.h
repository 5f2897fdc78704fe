// A job: the memories of all ranks and each rank's stream of launches, read from a directory.
#ifndef CPU_MODEL_ENGINE_RUN_JOB_H_
#define CPU_MODEL_ENGINE_RUN_JOB_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "clocks/timed_mode.h"
#include "detectors/event_counters.h"

namespace cpu_model {

constexpr int64_t kNoData = -1;

// Memory that outlives launches.
struct Memory {
  int rank;
  std::string name;
  bool symmetric;
  uint64_t bytes;
  int64_t data;  // offset of its content in data.bin; kNoData: the pattern
};

// Content of a part of such memory.
struct Fill {
  int rank;
  std::string name;
  uint64_t offset;
  uint64_t data;
  uint64_t bytes;
};

// Memory of one launch: an input has `data`, an output has `result`.
struct Array {
  std::string name;
  uint64_t bytes;
  int64_t data;
  int64_t result;
};

struct ScalarValue {
  std::string name;
  uint32_t value;
};

// Persistent memory whose content after the launch is a result.
struct ReadBack {
  std::string name;
  int64_t result;
};

struct Launch {
  int rank;
  std::vector<Array> arrays;
  std::vector<ScalarValue> scalars;
  std::vector<ReadBack> read_backs;
};

struct Job {
  uint64_t seed = 0;
  std::vector<int> late_ranks;
  bool weak = false;              // memory model
  bool early = false;             // lines may enter data caches early
  bool checks = true;             // detectors of order
  std::optional<TimedJob> timed;  // of a timed run
  EventCounters counters;
  std::vector<Memory> memories;
  std::vector<Fill> fills;
  std::vector<Launch> launches;
  const uint8_t* data = nullptr;
  uint8_t* results = nullptr;
};

// Reads DIRECTORY/job.txt and maps DIRECTORY/data.bin and results.bin. Sets the engine's limits,
// ranks and AICs. Exits with status 2 and a message where the files are not as expected.
Job ReadJob(const std::string& directory);

// Runs every launch of every rank.
void RunJob(const Job& job);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_RUN_JOB_H_
