// The matrix unit: fractals from L1 to L0, multiplication into L0C, results to global memory.
#include <algorithm>
#include <cstring>

#include "model/model.h"
#include "model/numbers.h"
#include "model/pending.h"

// The result is the same on every machine: one accumulator an element, k in order, no fused
// multiply-add. Wider vectors only change how many elements are done at once.
#if defined(__x86_64__)
#define CPU_MODEL_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define CPU_MODEL_CLONES
#endif

namespace cpu_model {

static void CheckPosition(const char* api, const char* what, const LocalRef& ref, Space space,
                          Where where) {
  if (SpaceOf(ref.position) != space) {
    Fail("core-kind",
         Format("%s: %s is in %s, expected %s", api, what, SpaceName(SpaceOf(ref.position)),
                SpaceName(space)),
         where);
  }
}

void Model::LoadFractals(const LocalRef& dst, const LocalRef& src, const FractalShape& shape, DType,
                         Where where) {
  Span read = LocalSpan(src, false, kFractalBytes);
  read.begin += uint64_t{shape.first} * kFractalBytes;
  read = Strided(read, shape.repeat, uint64_t{shape.src_pitch} * kFractalBytes);
  const Span write = Strided(LocalSpan(dst, true, kFractalBytes), shape.repeat,
                             uint64_t{shape.dst_pitch} * kFractalBytes);
  Core& core = Enter("LoadData", PIPE_MTE1, where, {write, read});
  CheckPosition("LoadData", "the source", src, kL1, where);
  if (SpaceOf(dst.position) != kL0A && SpaceOf(dst.position) != kL0B) {
    Fail("core-kind", "LoadData: the destination is L0A or L0B", where);
  }
  CheckAlignment("LoadData", src, 32, where);
  CheckAlignment("LoadData", dst, 512, where);
  if (shape.repeat == 0) return;
  const uint8_t* from = LocalData(core, src) + uint64_t{shape.first} * kFractalBytes;
  uint8_t* to = LocalData(core, dst);
  for (uint32_t i = 0; i < shape.repeat; ++i) {
    const uint8_t* in = from + uint64_t{i} * shape.src_pitch * kFractalBytes;
    uint8_t* out = to + uint64_t{i} * shape.dst_pitch * kFractalBytes;
    if (!shape.transpose) {
      std::memcpy(out, in, kFractalBytes);
      continue;
    }
    uint16_t tile[kFractalSide][kFractalSide];
    uint16_t turned[kFractalSide][kFractalSide];
    std::memcpy(tile, in, kFractalBytes);
    for (uint32_t r = 0; r < kFractalSide; ++r) {
      for (uint32_t c = 0; c < kFractalSide; ++c) turned[c][r] = tile[r][c];
    }
    std::memcpy(out, turned, kFractalBytes);
  }
}

typedef float Lanes __attribute__((vector_size(32)));

template <float (*FROM)(uint16_t)>
static void ToFloats(float* out, const uint8_t* in, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, in + 2 * i, 2);
    out[i] = FROM(bits);
  }
}

static void Widen(float* out, const uint8_t* in, DType type) {
  if (type == DType::kHalf) {
    ToFloats<FromHalf>(out, in, kFractalSide * kFractalSide);
  } else {
    ToFloats<FromBfloat16>(out, in, kFractalSide * kFractalSide);
  }
}

// c[r][0..15] += sum over k of a[r][k] * b[k][0..15] for four rows; rows lie `pitch` floats apart.
CPU_MODEL_CLONES static void MultiplyRows(float* c, const float* a, const float* b, uint32_t k,
                                          uint32_t pitch) {
  Lanes sum[4][2];
  for (int r = 0; r < 4; ++r) std::memcpy(sum[r], c + r * kFractalSide, sizeof(sum[r]));
  for (uint32_t i = 0; i < k; ++i) {
    Lanes right[2];
    std::memcpy(right, b + i * kFractalSide, sizeof(right));
    for (int r = 0; r < 4; ++r) {
      const float left = a[r * pitch + i];
      sum[r][0] += left * right[0];
      sum[r][1] += left * right[1];
    }
  }
  for (int r = 0; r < 4; ++r) std::memcpy(c + r * kFractalSide, sum[r], sizeof(sum[r]));
}

static void CheckMmad(const MmadShape& shape, Where where) {
  if (shape.m > 4095 || shape.n > 4095 || shape.k > 4095) {
    Fail("range", Format("Mmad: m %u, n %u, k %u must be in 0 to 4095", shape.m, shape.n, shape.k),
         where);
  }
  if (shape.m == 1) Unsupported("Mmad with m = 1, which reads A in another layout", where);
}

void Model::Multiply(const LocalRef& dst, const LocalRef& a, const LocalRef& b,
                     const MmadShape& shape, DType type, Where where) {
  const uint32_t m16 = (shape.m + kFractalSide - 1) / kFractalSide;
  const uint32_t n16 = (shape.n + kFractalSide - 1) / kFractalSide;
  const uint32_t k16 = (shape.k + kFractalSide - 1) / kFractalSide;
  const uint64_t result_bytes = uint64_t{m16} * n16 * kFractalBytes * 2;
  TheEngine().current->detail.fractals = m16 * n16;
  Core& core = Enter("Mmad", PIPE_M, where,
                     {LocalSpan(dst, true, result_bytes),
                      LocalSpan(dst, false, shape.from_zero ? 0 : result_bytes),
                      LocalSpan(a, false, uint64_t{m16} * k16 * kFractalBytes),
                      LocalSpan(b, false, uint64_t{n16} * k16 * kFractalBytes)});
  CheckPosition("Mmad", "the result", dst, kL0C, where);
  CheckPosition("Mmad", "the left matrix", a, kL0A, where);
  CheckPosition("Mmad", "the right matrix", b, kL0B, where);
  CheckAlignment("Mmad", dst, 1024, where);
  CheckAlignment("Mmad", a, kFractalBytes, where);
  CheckAlignment("Mmad", b, kFractalBytes, where);
  CheckMmad(shape, where);
  if (m16 == 0 || n16 == 0 || k16 == 0) return;

  static std::vector<float> left;   // [m16 * 16][k16 * 16]
  static std::vector<float> right;  // [n16][k16 * 16][16]
  const uint32_t depth = k16 * kFractalSide;
  left.resize(uint64_t{m16} * kFractalSide * depth);
  right.resize(uint64_t{n16} * kFractalSide * depth);
  float tile[kFractalSide * kFractalSide];
  const uint8_t* in = LocalData(core, a);
  for (uint32_t i = 0; i < m16; ++i) {
    for (uint32_t k = 0; k < k16; ++k) {
      Widen(tile, in + (uint64_t{i} * k16 + k) * kFractalBytes, type);
      for (uint32_t r = 0; r < kFractalSide; ++r) {
        std::memcpy(&left[(uint64_t{i} * kFractalSide + r) * depth + k * kFractalSide],
                    tile + r * kFractalSide, kFractalSide * sizeof(float));
      }
    }
  }
  in = LocalData(core, b);
  for (uint32_t k = 0; k < k16; ++k) {
    for (uint32_t j = 0; j < n16; ++j) {
      Widen(tile, in + (uint64_t{k} * n16 + j) * kFractalBytes, type);
      float* out = &right[(uint64_t{j} * depth + k * kFractalSide) * kFractalSide];
      for (uint32_t r = 0; r < kFractalSide; ++r) {
        for (uint32_t c = 0; c < kFractalSide; ++c)
          out[c * kFractalSide + r] = tile[r * kFractalSide + c];
      }
    }
  }

  uint8_t* result = LocalData(core, dst);
  for (uint32_t j = 0; j < n16; ++j) {
    const uint32_t columns = std::min(kFractalSide, shape.n - j * kFractalSide);
    for (uint32_t row = 0; row < shape.m; row += 4) {
      const uint32_t rows = std::min(4u, shape.m - row);
      uint8_t* c = result + (uint64_t{j} * m16 * kFractalSide + row) * kFractalSide * sizeof(float);
      float sum[4][kFractalSide] = {};
      if (!shape.from_zero) std::memcpy(sum, c, sizeof(sum));
      MultiplyRows(sum[0], &left[uint64_t{row} * depth], &right[uint64_t{j} * depth * kFractalSide],
                   shape.k, depth);
      for (uint32_t r = 0; r < rows; ++r) {
        std::memcpy(c + r * kFractalSide * sizeof(float), sum[r], columns * sizeof(float));
      }
    }
  }
}

static void Narrow(uint8_t* out, const float* in, uint32_t count, DType type) {
  if (type == DType::kFloat) {
    std::memcpy(out, in, count * sizeof(float));
    return;
  }
  for (uint32_t i = 0; i < count; ++i) {
    const uint16_t bits = type == DType::kHalf ? ToHalf(in[i]) : ToBfloat16(in[i]);
    std::memcpy(out + 2 * i, &bits, 2);
  }
}

void Model::StoreResult(const GlobalRef& dst, const LocalRef& src, const FixpipeShape& shape,
                        DType type, Where where) {
  const uint32_t width = type == DType::kFloat ? 4 : 2;
  const bool nothing = shape.rows == 0 || shape.columns == 0;
  const uint64_t block = uint64_t{shape.src_stride} * kFractalSide * sizeof(float);
  Span read = Strided(LocalSpan(src, false, uint64_t{shape.rows} * kFractalSide * sizeof(float)),
                      (shape.columns + kFractalSide - 1) / kFractalSide, block);
  Span write = Strided(GlobalSpan(dst, true, uint64_t{shape.columns} * width), shape.rows,
                       uint64_t{shape.dst_pitch} * width);
  if (nothing) read.bytes = write.bytes = 0;
  Core& core = Enter("Fixpipe", PIPE_FIX, where, {read, write});
  CheckPosition("Fixpipe", "the source", src, kL0C, where);
  CheckAlignment("Fixpipe", src, 64, where);
  if (shape.columns % kFractalSide != 0 || shape.columns > 4095) {
    Fail("range", Format("Fixpipe: nSize %u is not a multiple of 16 up to 4095", shape.columns),
         where);
  }
  if (shape.rows > 8192) {
    Fail("range", Format("Fixpipe: mSize %u is not in 0 to 8192", shape.rows), where);
  }
  CheckAtomic("Fixpipe", core, dst.addr, type, where);
  if (nothing) return;
  if (shape.dst_pitch < shape.columns && shape.rows > 1) {
    Fail("range",
         Format("Fixpipe: dstStride %u is less than nSize %u: rows would overlap", shape.dst_pitch,
                shape.columns),
         where);
  }
  const uint8_t* in = LocalData(core, src);
  std::vector<uint8_t> row(uint64_t{shape.columns} * width);
  for (uint32_t r = 0; r < shape.rows; ++r) {
    for (uint32_t c = 0; c < shape.columns; c += kFractalSide) {
      float values[kFractalSide];
      std::memcpy(values,
                  in + c / kFractalSide * block + uint64_t{r} * kFractalSide * sizeof(float),
                  sizeof(values));
      Narrow(&row[uint64_t{c} * width], values, kFractalSide, type);
    }
    WriteMemory(core, PIPE_FIX, dst.addr + uint64_t{r} * shape.dst_pitch * width, row.data(),
                row.size(), where);
  }
}

}  // namespace cpu_model
