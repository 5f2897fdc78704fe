// A timed run: clocks, without floating-point values. Integers are stored and computed, since sizes
// depend on them; values of other types are neither stored nor computed.
//
// A core's fiber runs ahead to its next synchronisation point (a read of memory that others write,
// a signal, the beginning of a task). That costs no time; the operations on the way are recorded,
// and the core is then suspended for as long as they take.
#ifndef CPU_MODEL_ENGINE_CLOCKS_TIMED_MODE_H_
#define CPU_MODEL_ENGINE_CLOCKS_TIMED_MODE_H_

#include <memory>
#include <queue>
#include <string>
#include <unordered_map>
#include <vector>

#include "clocks/recorder.h"
#include "model/model.h"
#include "model/timeline.h"

namespace cpu_model {

// What the job of a timed run has besides memories and launches.
struct TimedJob {
  Rates rates;
  std::vector<int> stages;         // stage of each family; empty: one stage
  std::vector<bool> communicates;  // of each stage: whether all ranks end it together
  std::vector<int> synchronises;   // stages of which the host reads results
  std::string counters;            // name of the memory that has the event counters
  uint64_t first_counter = 0;      // byte offset in it
  uint64_t counter_count = 0;
  uint64_t counter_pitch = 64;
  // Each task takes a factor of its time between 1 - noise and 1 + noise, drawn from its rank, its
  // number and this seed.
  double noise = 0;
  uint64_t noise_seed = 0;
  // Only rank 0 runs; the others are taken to do the same at the same time. What it sends to a
  // peer, a peer sends to it: `mirrored` has the counter of rank 0 that a peer signals when rank 0
  // sends the n-th signal of a task, by slot * 256 + n.
  bool mirror = false;
  std::unordered_map<uint64_t, uint64_t> mirrored;
};

class TimedMode : public Model {
 public:
  explicit TimedMode(const TimedJob& job) : job_(job) {}

  void Start(uint64_t bytes_of_rank) override;
  uint64_t Place(const std::string& name, int rank, uint64_t bytes) override;
  void Initialise(void*, uint64_t) override {}  // memory is 0; most of it is never touched
  int RanksThatRun() const override;
  void MakeReady(Core& core) override;
  void Suspend(Core& core, WaitKind wait) override;
  void Wake(Core& core) override;
  void WakeReaders(uint64_t begin, uint64_t end) override;
  void EndKernel(Core& core) override;
  void Run(void (*finished)(Core&)) override;

  void CheckLocal(const LocalRef&, uint64_t, Where) override {}
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
  void Mark(uint32_t value) override;
  int64_t Cycle(Where where) override;
  uint64_t PeerAddress(uint64_t addr, int rank, Where where) override;
  void Signal(uint64_t addr, int32_t value, bool add, int rank, Where where) override;

 protected:
  // Refuses a call whose duration was not recorded.
  Core& Enter(const char* api, pipe_t pipe, Where where, std::initializer_list<Span> spans,
              bool passive) override;
  void NotePoll(Core&, uint64_t, uint64_t, uint32_t, uint64_t, Where) override {
  }  // see AwaitChange
  void BeforeSignalRead(Core& core) override;
  void AwaitSignal(Core& core, uint64_t addr, int32_t seen) override;

 private:
  static constexpr int kCacheLines = 512;

  // What the run keeps of a core besides `Core`.
  struct CoreClock {
    Segment segment;
    TaskRecord task = {};
    bool in_task = false;
    bool started = false;  // the task's body
    bool signalled = false;
    double noise = 1;                  // factor of the task's time
    uint32_t signals = 0;              // that the task has sent
    double waited = 0;                 // longest wait of the task for a counter
    double last_read = 0;              // of polled memory
    double period = 0;                 // of the polling loop
    uint64_t watched = 0;              // address that the core waits for
    int stage = 0;                     // that the core is in, or waits for
    uint64_t lines[kCacheLines] = {};  // of the data cache, 0 where empty
  };

  // A write of a few bytes on its way: a signal.
  struct SignalWrite {
    uint64_t addr;
    uint32_t bytes;
    bool add;
    DType type;
    uint8_t data[64];
  };

  struct QueuedEvent {
    double time;
    uint64_t number;  // events of one time occur in the order in which they were queued
    Core* core;       // to resume, or
    int32_t signal;   // to deliver, or
    int32_t stage;    // to open, for `rank`
    int32_t rank;
    bool operator<(const QueuedEvent& other) const {
      return time > other.time || (time == other.time && number > other.number);
    }
  };

  struct RankStages {
    int open = 0;
    int parked = 0;        // cores that wait for a later stage, or have ended
    bool closing = false;  // the event that opens the next stage is queued
    std::vector<Core*> waiting;
  };

  const Rates& rates() const { return job_.rates; }
  CoreClock& ClockOf(const Core& core) { return clocks_[core.number]; }

  // The event queue (timed_mode.cpp).
  void Push(double time, Core* core, int32_t signal, int32_t stage, int32_t rank);
  void ResumeAt(Core& core, double time);
  void SendSignal(const SignalWrite& signal, double time);
  void Deliver(int32_t at);
  void Resume(Core& core, void (*finished)(Core&));
  // No event is queued: cores that were taken for pollers continue. False where there is none.
  bool Probe();
  // Suspends the core until all that it has recorded has ended. Before anything that other cores
  // see, or that waits for them.
  void Synchronise(Core& core);
  void Account(const Core& core, const Segment& segment);
  // Suspends the core until its polling loop reads the word after it was written.
  void SuspendUntilWritten(Core& core, uint64_t addr);

  // API calls (timed_calls.cpp).
  void Record(Core& core, StepKind kind, pipe_t pipe, int flag, uint64_t size);
  void RecordScalarCall();
  void RecordFlag(bool set, AscendC::HardEvent event, int32_t id);
  // Whether the values are integers, which the model computes.
  bool RecordVector(DType type, uint64_t bytes, int64_t elements, bool slow);
  uint64_t Traffic(uint64_t addr, const Blocks& blocks, uint64_t pitch, bool write);
  bool IsRemote(const Core& core, uint64_t addr) const;
  // Suspends the core, which polls the word at `addr`, until the word was written.
  void AwaitChange(Core& core, uint64_t addr);
  // A signal: arrives after its latency.
  void SendFrom(Core& core, uint64_t addr, const uint8_t* data, uint32_t bytes, bool add,
                DType type);

  // Memory (timed_memory.cpp).
  void Reserve(int ranks, uint64_t bytes_of_rank);
  uint64_t AddressOnRank(uint64_t addr, int rank) const;
  uint64_t FirstCounter(int rank);
  // Index of an event counter of the core's rank; -1 where the address is none.
  int CounterAt(const Core& core, uint64_t addr);
  uint64_t CounterAddress(const Core& core, uint64_t index);
  // Whether a short store to symmetric memory may be a signal: rows of counts are as short where a
  // layer has few experts. Where no counters are named, any may be.
  bool MayBeCounter(const Allocation& allocation, uint64_t addr) const;
  // The counter of this rank that a peer signals when this rank signals one of a peer.
  uint64_t MirroredCounter(const Core& core, uint32_t slot, uint32_t number);

  // Tasks and stages (timed_tasks.cpp, timed_stages.cpp).
  void EndTask(CoreClock& clock);
  double NoiseOf(int rank, uint32_t task) const;
  static bool AllParked(const RankStages& stages);
  void EnterStage(Core& core, int stage);
  void LeaveStages(Core& core);
  void CloseStage(int rank);
  void OpenNextStage(int rank, double latency);
  void OpenStage(int rank, int stage);

  const TimedJob& job_;
  double now_ = 0;  // ns
  double window_end_ = 0;
  Recorder recorder_;
  std::unique_ptr<Fluid> fluid_;
  std::vector<CoreClock> clocks_;
  std::priority_queue<QueuedEvent> events_;
  uint64_t event_count_ = 0;
  uint64_t progress_ = 0;  // signals that arrived, stages that opened, tasks and kernels that ended
  uint64_t probed_at_ = ~uint64_t{0};  // progress of the last Probe
  std::vector<SignalWrite> signals_;
  std::vector<int32_t> free_signals_;
  std::unordered_map<uint64_t, std::vector<Core*>> watchers_;  // by line
  std::vector<RankStages> stages_;                             // by rank
  std::vector<uint64_t> next_address_;                         // free, by rank
  std::vector<uint64_t> first_counters_;                       // addresses, by rank
};

}  // namespace cpu_model

#endif  // CPU_MODEL_ENGINE_CLOCKS_TIMED_MODE_H_
