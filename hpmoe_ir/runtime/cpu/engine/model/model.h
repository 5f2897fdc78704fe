// The model: what each API call does to values. How cores take turns, and what time is, belongs to
// the mode of a run, which derives from it.
#ifndef CPU_MODEL_ENGINE_MODEL_MODEL_H_
#define CPU_MODEL_ENGINE_MODEL_MODEL_H_

#include <initializer_list>
#include <string>

#include "model/engine.h"

namespace cpu_model {

class Model : public Api {
 public:
  // Once the cores are there, before there is any memory. bytes_of_rank: enough for all memories of
  // any rank.
  virtual void Start(uint64_t bytes_of_rank) = 0;

  // Memory.
  // Address of `bytes` of new global memory.
  virtual uint64_t Place(const std::string& name, int rank, uint64_t bytes) = 0;
  // Gives memory the content that it has where nothing was written.
  virtual void Initialise(void* data, uint64_t bytes) = 0;

  // Cores.
  virtual int RanksThatRun() const = 0;
  virtual void MakeReady(Core& core) = 0;               // its kernel may begin
  virtual void Suspend(Core& core, WaitKind wait) = 0;  // returns once the core was woken
  virtual void Wake(Core& core) = 0;                    // ends a wait for a flag or for SyncAll
  virtual void WakeReaders(uint64_t begin, uint64_t end) = 0;  // these bytes were written
  virtual void EndKernel(Core& core) = 0;  // on the core's fiber, after its last call
  // Runs until no core is left; calls `finished` when a core's kernel has returned.
  virtual void Run(void (*finished)(Core&)) = 0;

  // API calls that every mode does in the same way, but for the hooks below.
  void CheckLocal(const LocalRef& tensor, uint64_t bytes, Where where) override;
  uint64_t ReadLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, Where where) override;
  void WriteLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                  Where where) override;
  uint64_t ReadGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes,
                      Where where) override;
  void WriteGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                   Where where) override;
  void CleanCache(const GlobalRef& tensor, bool whole_cache, Where where) override;
  void CopyIn(const char* api, const LocalRef& dst, const GlobalRef& src, const Blocks& blocks,
              const Padding& padding, DType type, Where where) override;
  void CopyOut(const char* api, const GlobalRef& dst, const LocalRef& src, const Blocks& blocks,
               DType type, Where where) override;
  void CopyInNz(const LocalRef& dst, const GlobalRef& src, const NzShape& shape,
                Where where) override;
  void FillL1(const LocalRef& dst, uint32_t count, uint32_t bytes, uint32_t pitch, uint64_t value,
              uint32_t width, Where where) override;
  void SetAtomic(bool on, DType type, Where where) override;
  void LoadFractals(const LocalRef& dst, const LocalRef& src, const FractalShape& shape, DType type,
                    Where where) override;
  void Multiply(const LocalRef& dst, const LocalRef& a, const LocalRef& b, const MmadShape& shape,
                DType type, Where where) override;
  void StoreResult(const GlobalRef& dst, const LocalRef& src, const FixpipeShape& shape, DType type,
                   Where where) override;
  void Binary(BinaryOp op, const LocalRef& dst, const LocalRef& a, const LocalRef& b, DType type,
              int64_t count, Where where) override;
  void Unary(UnaryOp op, const LocalRef& dst, const LocalRef& src, DType type, int64_t count,
             Where where) override;
  void Scalar(ScalarOp op, const LocalRef& dst, const LocalRef& src, double scalar, DType type,
              int64_t count, Where where) override;
  void Convert(const LocalRef& dst, DType dst_type, const LocalRef& src, DType src_type,
               AscendC::RoundMode mode, int64_t count, Where where) override;
  void SetFlag(AscendC::HardEvent event, int32_t id, Where where) override;
  void WaitFlag(AscendC::HardEvent event, int32_t id, Where where) override;
  void Barrier(pipe_t pipe, Where where) override;
  void MemoryBarrier(AscendC::MemDsbT kind, Where where) override;
  void CrossCoreSet(uint8_t mode, pipe_t pipe, uint16_t id, Where where) override;
  void CrossCoreWait(uint16_t id, Where where) override;
  void SyncAll(bool vector_only, Where where) override;
  void InitCore(Where where) override;
  void Mark(uint32_t value) override;
  void Trap(Where where) override;
  uint64_t PeerAddress(uint64_t addr, int rank, Where where) override;
  int32_t WaitSignal(uint64_t addr, int compare, int32_t value, Where where) override;
  void Signal(uint64_t addr, int32_t value, bool add, int rank, Where where) override;
  void Quiet(Where where) override;

 protected:
  // Start of every API call. `passive` calls neither change global memory nor wake a core: a loop
  // of them is a poll.
  virtual Core& Enter(const char* api, pipe_t pipe, Where where, std::initializer_list<Span> spans,
                      bool passive = false) = 0;
  // A core has read memory that others write, and may do so again in a polling loop.
  virtual void NotePoll(Core& core, uint64_t addr, uint64_t target, uint32_t bytes, uint64_t value,
                        Where where) = 0;
  // WaitSignal is about to read the word at `addr`; it saw `seen`, and has to read it again.
  virtual void BeforeSignalRead(Core& core) = 0;
  virtual void AwaitSignal(Core& core, uint64_t addr, int32_t seen) = 0;
};
// The mode of the run.
Model& TheModel();
void SetModel(Model* model);

struct PipePair {
  pipe_t from;
  pipe_t to;
  const char* name;
};
const PipePair& PipesOf(AscendC::HardEvent event);

// Side of a fractal, a 16 x 16 tile of 16-bit elements, and its bytes.
constexpr uint32_t kFractalSide = 16;
constexpr uint64_t kFractalBytes = 512;

// Bytes of one element.
uint32_t WidthOf(DType type);
// Name of a vector operation.
const char* ApiName(BinaryOp op);
const char* ApiName(UnaryOp op);
const char* ApiName(ScalarOp op);
// Bytes of `count` elements; a fault where `count` is negative.
uint64_t VectorBytes(const char* api, DType type, int64_t count, Where where);

void CheckPeer(int rank, Where where);
// A store of elements, or an add to each where `atomic`.
void AtomicStore(bool atomic, DType type, uint8_t* dst, const uint8_t* src, uint64_t bytes);
void CheckAtomic(const char* api, const Core& core, uint64_t addr, DType type, Where where);

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_MODEL_MODEL_H_
