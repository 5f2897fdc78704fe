#include "run/job.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "model/engine.h"

namespace cpu_model {

[[noreturn]] static void Die(const std::string& message) {
  std::fprintf(stderr, "cpu model: %s\n", message.c_str());
  std::exit(2);
}

static uint8_t* MapFile(const std::string& path, bool writable) {
  const int file = open(path.c_str(), writable ? O_RDWR : O_RDONLY);
  struct stat info;
  if (file < 0 || fstat(file, &info) != 0) Die("cannot open " + path);
  if (info.st_size == 0) return nullptr;
  void* data = mmap(nullptr, static_cast<size_t>(info.st_size),
                    writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
  if (data == MAP_FAILED) Die("cannot map " + path);
  close(file);
  return static_cast<uint8_t*>(data);
}

static void ReadSpace(std::istream& in) {
  std::string name;
  uint64_t bytes = 0;
  in >> name >> bytes;
  for (int space = kL1; space < kSpaces; ++space) {
    if (name == SpaceName(static_cast<Space>(space))) {
      TheEngine().limits.space_bytes[space] = bytes;
      return;
    }
  }
  Die("job.txt: unknown memory " + name);
}

// A line that only timed runs have; false for another key.
static bool ReadTimed(Job& job, const std::string& key, std::istream& in) {
  if (key == "timing") {
    job.timed.emplace();
  } else if (!job.timed) {
    return false;
  } else if (key == "clock") {
    std::string name;
    double value = 0;
    in >> name >> value;
    if (!job.timed->rates.Set(name, value)) Die("job.txt: unknown number " + name);
  } else if (key == "stage") {
    job.timed->stages.emplace_back();
    in >> job.timed->stages.back();
  } else if (key == "communicates") {
    int value = 0;
    in >> value;
    job.timed->communicates.push_back(value != 0);
  } else if (key == "synchronises") {
    job.timed->synchronises.emplace_back();
    in >> job.timed->synchronises.back();
  } else if (key == "noise") {
    in >> job.timed->noise >> job.timed->noise_seed;
  } else if (key == "mirror") {
    job.timed->mirror = true;
  } else if (key == "mirrored") {
    uint64_t slot = 0;
    uint64_t number = 0;
    in >> slot >> number;
    in >> job.timed->mirrored[slot * 256 + number];
  } else if (key == "counters") {
    in >> job.timed->counters >> job.timed->first_counter >> job.timed->counter_count >>
        job.timed->counter_pitch;
  } else {
    return false;
  }
  return true;
}

static void ReadLine(Job& job, const std::string& key, std::istream& in) {
  Engine& engine = TheEngine();
  if (ReadTimed(job, key, in)) {
  } else if (key == "seed") {
    in >> job.seed;
  } else if (key == "ranks") {
    in >> engine.ranks;
  } else if (key == "aics") {
    in >> engine.aics;
  } else if (key == "late") {
    in >> job.late_ranks.emplace_back();
  } else if (key == "steps") {
    in >> engine.limits.steps;
  } else if (key == "seconds") {
    in >> engine.limits.seconds;
  } else if (key == "checks") {
    in >> job.checks;
  } else if (key == "event_ids") {
    in >> engine.limits.event_ids;
  } else if (key == "space") {
    ReadSpace(in);
  } else if (key == "weak") {
    in >> job.weak;
  } else if (key == "early") {
    in >> job.early;
  } else if (key == "event_counters") {
    in >> job.counters.memory >> job.counters.launch >> job.counters.given_up;
  } else if (key == "event_counter") {
    EventCounter counter;
    size_t ranks = 0;
    in >> counter.event >> counter.index >> counter.offset >> counter.threshold;
    in >> counter.copies >> counter.copy >> ranks;
    counter.unwaited.resize(ranks);
    for (int& rank : counter.unwaited) in >> rank;
    job.counters.all.push_back(counter);
  } else if (key == "memory") {
    Memory memory;
    in >> memory.rank >> memory.name >> memory.symmetric >> memory.bytes >> memory.data;
    job.memories.push_back(memory);
  } else if (key == "fill") {
    Fill fill;
    in >> fill.rank >> fill.name >> fill.offset >> fill.data >> fill.bytes;
    job.fills.push_back(fill);
  } else if (key == "launch") {
    job.launches.emplace_back();
    in >> job.launches.back().rank;
  } else if (job.launches.empty()) {
    Die("job.txt: unexpected '" + key + "'");
  } else if (key == "array") {
    Array array;
    in >> array.name >> array.bytes >> array.data >> array.result;
    job.launches.back().arrays.push_back(array);
  } else if (key == "scalar") {
    ScalarValue scalar;
    in >> scalar.name >> scalar.value;
    job.launches.back().scalars.push_back(scalar);
  } else if (key == "read_back") {
    ReadBack read_back;
    in >> read_back.name >> read_back.result;
    job.launches.back().read_backs.push_back(read_back);
  } else {
    Die("job.txt: unexpected '" + key + "'");
  }
  if (in.fail()) Die("job.txt: malformed '" + key + "' line");
}

Job ReadJob(const std::string& directory) {
  std::ifstream file(directory + "/job.txt");
  if (!file) Die("cannot open " + directory + "/job.txt");
  Job job;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream in(line);
    std::string key;
    if (in >> key) ReadLine(job, key, in);
  }
  job.data = MapFile(directory + "/data.bin", false);
  job.results = MapFile(directory + "/results.bin", true);
  return job;
}

}  // namespace cpu_model
