#include "hpmoe_host/table_image.h"

#include <cstdio>
#include <cstring>
#include <string>

#include "hpmoe_host/failure.h"

namespace hpmoe_host {
namespace {

constexpr const char* kNames[kHeaderWords] = {
    "magic",      "version",  "bytes",    "ranks",      "blocks",     "families",
    "events",     "tasks",    "sizes",    "size_count", "thresholds", "aic_queues",
    "aiv_queues", "counters", "checksum", "reserved"};

void CheckWord(TableWord word, uint32_t expected, uint32_t found) {
  if (expected == found) return;
  char text[128];
  const char* format = word == kMagic || word == kChecksum
                           ? "task table: %s: expected 0x%08x, found 0x%08x"
                           : "task table: %s: expected %u, found %u";
  std::snprintf(text, sizeof(text), format, kNames[word], expected, found);
  throw Failure(text);
}

}  // namespace

uint32_t Crc32(const uint8_t* data, size_t bytes) {
  uint32_t crc = 0xFFFFFFFFu;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0u);
  }
  return ~crc;
}

void CheckTable(const void* table, size_t bytes, const TableHeader& expected) {
  Require(table != nullptr, "task table: expected its bytes, found a null pointer");
  Require(bytes >= sizeof(TableHeader), "task table: expected at least the " +
                                            std::to_string(sizeof(TableHeader)) +
                                            " bytes of its header, found " + std::to_string(bytes));
  TableHeader found;
  std::memcpy(found.data(), table, sizeof(found));
  CheckWord(kMagic, expected[kMagic], found[kMagic]);
  CheckWord(kVersion, expected[kVersion], found[kVersion]);
  if (found[kBytes] != bytes) {
    throw Failure("task table: bytes: expected " + std::to_string(found[kBytes]) +
                  " as its header says, found " + std::to_string(bytes));
  }
  const uint8_t* body = static_cast<const uint8_t*>(table) + sizeof(found);
  CheckWord(kChecksum, Crc32(body, bytes - sizeof(found)), found[kChecksum]);
  // An intact table of another layer, or of this one compiled with other options.
  for (uint32_t word = 0; word < kHeaderWords; ++word) {
    CheckWord(static_cast<TableWord>(word), expected[word], found[word]);
  }
}

}  // namespace hpmoe_host
