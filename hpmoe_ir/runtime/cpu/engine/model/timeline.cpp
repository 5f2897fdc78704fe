#include "model/timeline.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <tuple>

namespace cpu_model {

Timeline& TheTimeline() {
  static Timeline timeline;
  return timeline;
}

void WriteTimeline(const std::string& path) {
  Timeline& timeline = TheTimeline();
  std::stable_sort(timeline.tasks.begin(), timeline.tasks.end(),
                   [](const TaskRecord& a, const TaskRecord& b) {
                     return std::tie(a.rank, a.core) < std::tie(b.rank, b.core);
                   });
  const uint64_t header[2] = {timeline.tasks.size(), timeline.totals.size()};
  std::FILE* file = std::fopen(path.c_str(), "wb");
  bool written = file != nullptr && std::fwrite(header, sizeof(header), 1, file) == 1;
  for (const TaskRecord& task : timeline.tasks) {
    written = written && std::fwrite(&task, sizeof(task), 1, file) == 1;
  }
  for (const RankTotals& totals : timeline.totals) {
    written = written && std::fwrite(&totals, sizeof(totals), 1, file) == 1;
  }
  if (!written || std::fclose(file) != 0) {
    std::fprintf(stderr, "cpu model: cannot write %s\n", path.c_str());
    std::exit(2);
  }
}

}  // namespace cpu_model
