// DMA: global memory to and from UB and L1.
#include <cstring>

#include "model/model.h"
#include "model/numbers.h"
#include "model/pending.h"

namespace cpu_model {

constexpr uint64_t kPollBytes = 512;

void CheckCopySize(const char* api, uint64_t bytes, Where where) {
  if (bytes % 32 != 0) {
    Fail("alignment",
         Format("%s: %llu bytes is not a multiple of 32: the chip drops the rest", api,
                static_cast<unsigned long long>(bytes)),
         where);
  }
}

static void CheckBlocks(const char* api, const Blocks& blocks, Where where) {
  if (blocks.count > 4095) {
    Fail("range", Format("%s: blockCount %u is not in 0 to 4095", api, blocks.count), where);
  }
  if (blocks.bytes > 2097151) {
    Fail("range", Format("%s: blockLen %u is not in 0 to 2097151 bytes", api, blocks.bytes), where);
  }
  // Observed on A3 (tilelang-ascend, pull request 1777); a single short block is copied correctly.
  if (api[8] == 'P' && blocks.count > 1 && blocks.bytes != 0 && blocks.bytes < 32) {
    Fail("alignment",
         Format(
             "%s: %u blocks of %u bytes: of several blocks of less than 32 bytes some land in the "
             "wrong place, copy each by itself",
             api, blocks.count, blocks.bytes),
         where);
  }
}

static void CheckPadding(const char* api, const Blocks& blocks, const Padding& padding,
                         Where where) {
  if (padding.left > 32 || padding.right > 32) {
    Fail("range",
         Format("%s: padding of %u and %u bytes is more than 32", api, padding.left, padding.right),
         where);
  }
  if (!padding.fill) return;
  if (padding.width == 8 && padding.value != 0) {
    Fail("range", Format("%s: the padding value of a 64-bit type must be 0", api), where);
  }
  if (padding.left == 0 && padding.right == 0 && blocks.bytes % 32 != 0) {
    Fail(
        "alignment",
        Format("%s: isPad without leftPadding or rightPadding: the chip fills the %u bytes up to a "
               "multiple of 32 with the block's first element, not with paddingValue",
               api, 32 - blocks.bytes % 32),
        where);
  }
}

// The side of local memory that DMA reaches: UB on an AIV, L1 on an AIC.
static void CheckDmaSide(const char* api, const LocalRef& ref, Where where) {
  const Space space = SpaceOf(ref.position);
  if (space != kUb && space != kL1) {
    Fail("unsupported", Format("%s between global memory and %s", api, SpaceName(space)), where);
  }
  CheckAlignment(api, ref, 32, where);
}

// The value that a poll compares: the bytes themselves where they fit, otherwise a hash.
static uint64_t Seen(const uint8_t* data, uint64_t bytes) {
  if (bytes <= 8) {
    uint64_t value = 0;
    std::memcpy(&value, data, bytes);
    return value;
  }
  uint64_t hash = 1469598103934665603ull;
  for (uint64_t i = 0; i < bytes; ++i) hash = (hash ^ data[i]) * 1099511628211ull;
  return hash;
}

static void PadBlock(uint8_t* row, const uint8_t* src, uint64_t bytes, const Padding& padding) {
  const uint64_t total = (padding.left + bytes + padding.right + 31) / 32 * 32;
  if (total == bytes) {
    std::memcpy(row, src, bytes);
    return;
  }
  FillPattern(row, total);
  if (padding.fill) {
    for (uint64_t i = 0; i + padding.width <= total; i += padding.width) {
      std::memcpy(row + i, &padding.value, padding.width);
    }
  }
  std::memcpy(row + padding.left, src, bytes);
}

void Model::CopyIn(const char* api, const LocalRef& dst, const GlobalRef& src, const Blocks& blocks,
                   const Padding& padding, DType, Where where) {
  CheckBlocks(api, blocks, where);
  CheckPadding(api, blocks, padding, where);
  const bool padded = api[8] == 'P';
  const uint64_t row =
      padded ? (padding.left + blocks.bytes + padding.right + 31) / 32 * 32 : blocks.bytes;
  const uint64_t total = uint64_t{blocks.bytes} * blocks.count;
  const bool small = total <= kPollBytes && blocks.count == 1;
  Core& core =
      Enter(api, PIPE_MTE2, where,
            {Strided(LocalSpan(dst, true, row), blocks.count, blocks.dst_pitch),
             Strided(GlobalSpan(src, false, blocks.bytes), blocks.count, blocks.src_pitch)},
            small);
  CheckDmaSide(api, dst, where);
  if (padded && core.aic) Unsupported("DataCopyPad to L1", where);
  if (total == 0) return;
  if (small) {
    NotePoll(core, src.addr, dst.addr, blocks.bytes, Seen(GlobalData(src.addr), total), where);
  }
  uint8_t* out = LocalData(core, dst);
  for (uint32_t i = 0; i < blocks.count; ++i) {
    const uint8_t* from = GlobalData(src.addr) + i * blocks.src_pitch;
    if (padded) {
      PadBlock(out + i * blocks.dst_pitch, from, blocks.bytes, padding);
    } else {
      std::memcpy(out + i * blocks.dst_pitch, from, blocks.bytes);
    }
  }
}

template <typename T>
static void AddIntegers(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += sizeof(T)) {
    T a;
    T b;
    std::memcpy(&a, dst + i, sizeof(T));
    std::memcpy(&b, src + i, sizeof(T));
    a = static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    std::memcpy(dst + i, &a, sizeof(T));
  }
}

template <float (*FROM)(uint16_t), uint16_t (*TO)(float)>
static void AddShort(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 2) {
    uint16_t a;
    uint16_t b;
    std::memcpy(&a, dst + i, 2);
    std::memcpy(&b, src + i, 2);
    a = TO(FROM(a) + FROM(b));
    std::memcpy(dst + i, &a, 2);
  }
}

static void AddFloats(uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  for (uint64_t i = 0; i < bytes; i += 4) {
    float a;
    float b;
    std::memcpy(&a, dst + i, 4);
    std::memcpy(&b, src + i, 4);
    a += b;
    std::memcpy(dst + i, &a, 4);
  }
}

void AtomicStore(bool atomic, DType type, uint8_t* dst, const uint8_t* src, uint64_t bytes) {
  if (!atomic) {
    std::memcpy(dst, src, bytes);
    return;
  }
  switch (type) {
    case DType::kFloat:
      return AddFloats(dst, src, bytes);
    case DType::kHalf:
      return AddShort<FromHalf, ToHalf>(dst, src, bytes);
    case DType::kBfloat16:
      return AddShort<FromBfloat16, ToBfloat16>(dst, src, bytes);
    case DType::kInt32:
      return AddIntegers<int32_t>(dst, src, bytes);
    case DType::kInt16:
      return AddIntegers<int16_t>(dst, src, bytes);
    default:
      return AddIntegers<int8_t>(dst, src, bytes);
  }
}

void CheckAtomic(const char* api, const Core& core, uint64_t addr, DType type, Where where) {
  if (!core.atomic) return;
  if (core.atomic_type != type) {
    Fail("state", Format("%s: SetAtomicAdd is on for another element type", api), where);
  }
  const uint32_t width = type == DType::kFloat || type == DType::kInt32 ? 4
                         : type == DType::kInt8                         ? 1
                                                                        : 2;
  if (addr % width != 0) {
    Fail("alignment",
         Format("%s: atomic add to %s, not aligned to the element", api,
                DescribeAddress(addr).c_str()),
         where);
  }
}

void Model::CopyOut(const char* api, const GlobalRef& dst, const LocalRef& src,
                    const Blocks& blocks, DType type, Where where) {
  CheckBlocks(api, blocks, where);
  Core& core =
      Enter(api, PIPE_MTE3, where,
            {Strided(LocalSpan(src, false, blocks.bytes), blocks.count, blocks.src_pitch),
             Strided(GlobalSpan(dst, true, blocks.bytes), blocks.count, blocks.dst_pitch)});
  CheckDmaSide(api, src, where);
  if (api[8] == 'P' && core.aic) Unsupported("DataCopyPad from L1", where);
  CheckAtomic(api, core, dst.addr, type, where);
  if (blocks.bytes == 0) return;
  const uint8_t* from = LocalData(core, src);
  for (uint32_t i = 0; i < blocks.count; ++i) {
    WriteMemory(core, PIPE_MTE3, dst.addr + i * blocks.dst_pitch, from + i * blocks.src_pitch,
                blocks.bytes, where);
  }
}

static void CheckNz(const NzShape& shape, Where where) {
  const struct {
    const char* name;
    uint64_t value, low, high;
  } fields[] = {
      {"ndNum", shape.matrices, 0, 4095},
      {"nValue", shape.rows, 0, 16384},
      {"srcDValue", shape.src_row_pitch / shape.width, 1, 65535},
      {"dstNzC0Stride", shape.dst_column_pitch / 32, 1, 16384},
      {"dstNzNStride", shape.dst_row_pitch / 32, 1, 16384},
      {"dstNzMatrixStride", shape.dst_matrix_pitch / shape.width, 0, 16384},
  };
  for (const auto& field : fields) {
    if (field.value < field.low || field.value > field.high) {
      Fail("range",
           Format("DataCopy with Nd2NzParams: %s %llu is not in %llu to %llu", field.name,
                  static_cast<unsigned long long>(field.value),
                  static_cast<unsigned long long>(field.low),
                  static_cast<unsigned long long>(field.high)),
           where);
    }
  }
}

void Model::CopyInNz(const LocalRef& dst, const GlobalRef& src, const NzShape& shape, Where where) {
  const char* api = "DataCopy with Nd2NzParams";
  const bool nothing = shape.matrices == 0 || shape.rows == 0 || shape.columns == 0;
  if (!nothing) CheckNz(shape, where);
  const uint32_t per_block = 32 / shape.width;
  const uint32_t column_blocks = (shape.columns + per_block - 1) / per_block;
  Span read = Strided(GlobalSpan(src, false, uint64_t{shape.columns} * shape.width), shape.rows,
                      shape.src_row_pitch);
  Span write = Strided(LocalSpan(dst, true, 32), shape.rows, shape.dst_row_pitch);
  write = Strided(write, column_blocks, shape.dst_column_pitch);
  if (shape.matrices > 1) {
    read = Strided(read, shape.matrices, shape.src_matrix_pitch);
    write.bytes += (shape.matrices - 1) * shape.dst_matrix_pitch;
  }
  if (nothing) read.bytes = write.bytes = 0;
  Core& core = Enter(api, PIPE_MTE2, where, {write, read});
  if (!core.aic || SpaceOf(dst.position) != kL1) {
    Fail("core-kind", Format("%s: the destination is L1 of an AIC", api), where);
  }
  CheckAlignment(api, dst, 32, where);
  if (nothing) return;
  uint8_t* out = LocalData(core, dst);
  const uint64_t row_bytes = uint64_t{shape.columns} * shape.width;
  for (uint32_t m = 0; m < shape.matrices; ++m) {
    for (uint32_t r = 0; r < shape.rows; ++r) {
      const uint8_t* from =
          GlobalData(src.addr) + m * shape.src_matrix_pitch + r * shape.src_row_pitch;
      uint8_t* to = out + m * shape.dst_matrix_pitch + r * shape.dst_row_pitch;
      for (uint32_t c = 0; c < column_blocks; ++c) {
        const uint64_t left = row_bytes - c * 32ull;
        uint8_t* block = to + c * shape.dst_column_pitch;
        if (left >= 32) {
          std::memcpy(block, from + c * 32ull, 32);
        } else {
          std::memcpy(block, from + c * 32ull, left);
          std::memset(block + left, 0, 32 - left);
        }
      }
    }
  }
}

void Model::FillL1(const LocalRef& dst, uint32_t count, uint32_t bytes, uint32_t pitch,
                   uint64_t value, uint32_t width, Where where) {
  Core& core =
      Enter("Fill", PIPE_MTE2, where, {Strided(LocalSpan(dst, true, bytes), count, pitch)});
  if (!core.aic || SpaceOf(dst.position) != kL1) Unsupported("Fill of other than L1", where);
  CheckAlignment("Fill", dst, 32, where);
  uint8_t* out = LocalData(core, dst);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t at = 0; at < bytes; at += width) {
      std::memcpy(out + uint64_t{i} * pitch + at, &value, width);
    }
  }
}

void Model::SetAtomic(bool on, DType type, Where where) {
  Core& core = Enter(on ? "SetAtomicAdd" : "SetAtomicNone", PIPE_S, where, {});
  core.atomic = on;
  core.atomic_type = type;
}

}  // namespace cpu_model
