// Runs the L2 model of the CPU model on a list of touches; prints the bytes that each moves.
#include <cinttypes>
#include <cstdio>

#include "clocks/l2.h"

int main() {
  uint64_t bytes = 0, line = 0, span = 0;
  if (std::scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &bytes, &line, &span) != 3) return 1;
  cpu_model::L2 l2(bytes, line, span);
  cpu_model::Rows rows = {};
  int write = 0;
  while (std::scanf("%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %d", &rows.begin, &rows.bytes,
                    &rows.pitch, &rows.count, &write) == 5) {
    std::printf("%" PRIu64 "\n", l2.Touch(rows, write != 0));
  }
}
