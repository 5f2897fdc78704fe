// The cache of the CPU model on a list of touches: the bytes that each moves, a line each.
#include <cinttypes>
#include <cstdio>

#include "l2.h"

int main() {
  uint64_t bytes = 0, line = 0, span = 0, begin = 0, end = 0;
  int write = 0;
  if (std::scanf("%" SCNu64 " %" SCNu64 " %" SCNu64, &bytes, &line, &span) != 3) return 1;
  cpu_model::L2 l2(bytes, line, span);
  while (std::scanf("%" SCNu64 " %" SCNu64 " %d", &begin, &end, &write) == 3) {
    std::printf("%" PRIu64 "\n", l2.Touch(begin, end, write != 0));
  }
}
