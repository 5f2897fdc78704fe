// The executable of a kernel: runs the job of a directory, leaves its results or a fault there.
#include <cstdio>

#include "model/engine.h"
#include "model/timeline.h"
#include "run/job.h"

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
