// Interface between the API headers and the engine: each API call is one method of `Api`, with the
// kernel line that made it. The method implies the pipe; the arguments name the memory it touches.
#ifndef CPU_MODEL_CALL_H_
#define CPU_MODEL_CALL_H_

#include "cpu_model/enums.h"
#include "cpu_model/types.h"

namespace cpu_model {

// The kernel line that made a call. As a default argument it names the caller.
struct Where {
  const char* file;
  int line;
  Where(const char* file_in = __builtin_FILE(), int line_in = __builtin_LINE())
      : file(file_in), line(line_in) {}
};

enum class DType : uint8_t {
  kInt8,
  kUint8,
  kInt16,
  kUint16,
  kHalf,
  kBfloat16,
  kInt32,
  kUint32,
  kFloat,
  kInt64,
  kUint64,
};

template <typename T>
struct DTypeOf;
// clang-format off
template <> struct DTypeOf<int8_t> { static constexpr DType kValue = DType::kInt8; };
template <> struct DTypeOf<uint8_t> { static constexpr DType kValue = DType::kUint8; };
template <> struct DTypeOf<int16_t> { static constexpr DType kValue = DType::kInt16; };
template <> struct DTypeOf<uint16_t> { static constexpr DType kValue = DType::kUint16; };
template <> struct DTypeOf<half> { static constexpr DType kValue = DType::kHalf; };
template <> struct DTypeOf<bfloat16_t> { static constexpr DType kValue = DType::kBfloat16; };
template <> struct DTypeOf<int32_t> { static constexpr DType kValue = DType::kInt32; };
template <> struct DTypeOf<uint32_t> { static constexpr DType kValue = DType::kUint32; };
template <> struct DTypeOf<float> { static constexpr DType kValue = DType::kFloat; };
template <> struct DTypeOf<int64_t> { static constexpr DType kValue = DType::kInt64; };
template <> struct DTypeOf<uint64_t> { static constexpr DType kValue = DType::kUint64; };
// clang-format on

// Bytes of one local memory that a LocalTensor names.
struct LocalRef {
  AscendC::TPosition position;
  uint32_t addr;   // byte address within the memory
  uint32_t bytes;  // from addr to the end of the tensor
};

// Global memory that a GlobalTensor names; `end` is 0 where the kernel gave no size.
struct GlobalRef {
  uint64_t addr;
  uint64_t end;
};

// Blocks of equal size. Pitches are bytes from start to start.
struct Blocks {
  uint32_t count;
  uint32_t bytes;
  uint64_t src_pitch;
  uint64_t dst_pitch;
};

// Bytes added to each block on its way into UB. Without `fill` their value is arbitrary.
struct Padding {
  bool fill;
  uint32_t left;   // bytes
  uint32_t right;  // bytes
  uint64_t value;
  uint32_t width;  // bytes of one element
};

enum class BinaryOp : uint8_t { kAdd, kSub, kMul, kDiv, kMax, kMin };
enum class UnaryOp : uint8_t { kExp, kLn, kAbs, kSqrt, kRelu };
enum class ScalarOp : uint8_t { kAdd, kMul, kMax, kMin, kAxpy, kFill };

struct NzShape {
  uint32_t matrices, rows, columns;
  uint64_t src_matrix_pitch, src_row_pitch;                    // bytes
  uint64_t dst_column_pitch, dst_row_pitch, dst_matrix_pitch;  // bytes
  uint32_t width;                                              // bytes of one element
};
struct FractalShape {
  uint32_t first, repeat, src_pitch, dst_pitch;  // fractals
  bool transpose;
};
struct MmadShape {
  uint32_t m, n, k;
  bool from_zero;
};
struct FixpipeShape {
  uint32_t rows, columns, src_stride, dst_pitch;  // elements; src_stride in 16 elements
};

// One method for each API call. The mode of a run implements it: with values, or with clocks.
class Api {
 public:
  virtual ~Api() = default;

  // Tensors.
  virtual void CheckLocal(const LocalRef& tensor, uint64_t bytes, Where where) = 0;
  virtual uint64_t ReadLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes,
                             Where where) = 0;
  virtual void WriteLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                          Where where) = 0;
  virtual uint64_t ReadGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes,
                              Where where) = 0;
  virtual void WriteGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                           Where where) = 0;
  virtual void CleanCache(const GlobalRef& tensor, bool whole_cache, Where where) = 0;

  // Data movement.
  virtual void CopyIn(const char* api, const LocalRef& dst, const GlobalRef& src,
                      const Blocks& blocks, const Padding& padding, DType type, Where where) = 0;
  virtual void CopyOut(const char* api, const GlobalRef& dst, const LocalRef& src,
                       const Blocks& blocks, DType type, Where where) = 0;
  virtual void CopyInNz(const LocalRef& dst, const GlobalRef& src, const NzShape& shape,
                        Where where) = 0;
  virtual void FillL1(const LocalRef& dst, uint32_t count, uint32_t bytes, uint32_t pitch,
                      uint64_t value, uint32_t width, Where where) = 0;
  virtual void SetAtomic(bool on, DType type, Where where) = 0;

  // Matrix unit.
  virtual void LoadFractals(const LocalRef& dst, const LocalRef& src, const FractalShape& shape,
                            DType type, Where where) = 0;
  virtual void Multiply(const LocalRef& dst, const LocalRef& a, const LocalRef& b,
                        const MmadShape& shape, DType type, Where where) = 0;
  virtual void StoreResult(const GlobalRef& dst, const LocalRef& src, const FixpipeShape& shape,
                           DType type, Where where) = 0;

  // Vector unit.
  virtual void Binary(BinaryOp op, const LocalRef& dst, const LocalRef& a, const LocalRef& b,
                      DType type, int64_t count, Where where) = 0;
  virtual void Unary(UnaryOp op, const LocalRef& dst, const LocalRef& src, DType type,
                     int64_t count, Where where) = 0;
  // dst = src op scalar; kAxpy: dst += src * scalar; kFill: dst = scalar (src ignored).
  virtual void Scalar(ScalarOp op, const LocalRef& dst, const LocalRef& src, double scalar,
                      DType type, int64_t count, Where where) = 0;
  virtual void Convert(const LocalRef& dst, DType dst_type, const LocalRef& src, DType src_type,
                       AscendC::RoundMode mode, int64_t count, Where where) = 0;

  // Synchronisation.
  virtual void SetFlag(AscendC::HardEvent event, int32_t id, Where where) = 0;
  virtual void WaitFlag(AscendC::HardEvent event, int32_t id, Where where) = 0;
  virtual void Barrier(pipe_t pipe, Where where) = 0;
  virtual void MemoryBarrier(AscendC::MemDsbT kind, Where where) = 0;
  virtual void CrossCoreSet(uint8_t mode, pipe_t pipe, uint16_t id, Where where) = 0;
  virtual void CrossCoreWait(uint16_t id, Where where) = 0;
  virtual void SyncAll(bool vector_only, Where where) = 0;

  // Core.
  virtual void InitCore(Where where) = 0;
  virtual void Mark(uint32_t value) = 0;
  virtual int64_t Cycle(Where where) = 0;
  virtual void Trap(Where where) = 0;

  // Symmetric memory.
  virtual uint64_t PeerAddress(uint64_t addr, int rank, Where where) = 0;
  virtual int32_t WaitSignal(uint64_t addr, int compare, int32_t value, Where where) = 0;
  virtual void Signal(uint64_t addr, int32_t value, bool add, int rank, Where where) = 0;
  virtual void Quiet(Where where) = 0;
};
extern Api* the_api;  // of the run
inline Api& TheApi() { return *the_api; }

// Place of the running core.
bool IsAic();
int64_t BlockIndex();
int64_t BlockCount();
int64_t SubBlockIndex();
int64_t SubBlockCount();
int Rank();
int Ranks();

// Ends the run with a report that the model does not do what was asked for.
void Unsupported(const char* what, Where where);

}  // namespace cpu_model

#endif  // CPU_MODEL_CALL_H_
