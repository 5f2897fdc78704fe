// Checks of the task table before it is copied to the device.
#ifndef HPMOE_HOST_TABLE_IMAGE_H_
#define HPMOE_HOST_TABLE_IMAGE_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace hpmoe_host {

// Words of the header, as in hpmoe/table.h.
enum TableWord : uint32_t {
  kMagic,
  kVersion,
  kBytes,
  kRanks,
  kBlocks,
  kFamilies,
  kEvents,
  kTasks,
  kSizes,
  kSizeCount,
  kThresholds,
  kAicQueues,
  kAivQueues,
  kCounters,
  kChecksum,
  kReserved,
  kHeaderWords,
};

using TableHeader = std::array<uint32_t, kHeaderWords>;

// CRC-32 of `bytes` bytes, as zlib computes it.
uint32_t Crc32(const uint8_t* data, size_t bytes);

// Throws Failure unless `table` is intact and is the table whose header is `expected`.
void CheckTable(const void* table, size_t bytes, const TableHeader& expected);

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_TABLE_IMAGE_H_
