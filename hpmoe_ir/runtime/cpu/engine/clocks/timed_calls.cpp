// API calls of a timed run: each is recorded; the model does those that move or compute integers.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "clocks/timed_mode.h"

namespace cpu_model {

constexpr uint64_t kSignalBytes = 64;
constexpr uint64_t kPollBytes = 64;

static Core& Current() { return *TheEngine().current; }

static bool IsInteger(DType type) {
  return type != DType::kFloat && type != DType::kHalf && type != DType::kBfloat16;
}

bool TimedMode::IsRemote(const Core& core, uint64_t addr) const {
  return recorder_.RankOf(addr) != core.rank;
}

static uint64_t Peek(uint64_t addr, uint32_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, GlobalData(addr), bytes);
  return value;
}

// A read of memory that others write. If it finds what the last such read found, with nothing done
// in between, it is one of a polling loop: the core is suspended until a read finds a new value.
static bool SameAsBefore(Core& core, uint64_t addr, uint64_t target, uint32_t bytes, uint64_t value,
                         Where where) {
  for (Poll& poll : core.poll) {
    if (poll.file == where.file && poll.line == where.line && poll.addr == addr &&
        poll.target == target && poll.bytes == bytes && poll.effects == core.effects) {
      const bool same = poll.value == value;
      poll.value = value;
      return same;
    }
  }
  core.poll[core.next_poll] = {where.file, where.line, addr, target, bytes, value, core.effects};
  core.next_poll = (core.next_poll + 1) % kPolls;
  return false;
}

void TimedMode::AwaitChange(Core& core, uint64_t addr) {
  CoreClock& clock = ClockOf(core);
  const double since = clock.last_read;
  clock.period = std::max(now_ - clock.last_read, 1.0);
  clock.last_read = now_;
  core.wait_addr = addr;
  SuspendUntilWritten(core, addr);
  const int counter = CounterAt(core, addr);
  if (counter >= 0 && now_ - since > clock.waited) {
    clock.waited = now_ - since;
    clock.task.event = counter;
  }
}

void TimedMode::BeforeSignalRead(Core& core) {
  Synchronise(core);
  ClockOf(core).last_read = now_;
  recorder_.AddScalar(rates().Cycles(rates().latency_poll * 1e9));
}

void TimedMode::AwaitSignal(Core& core, uint64_t addr, int32_t) {
  ClockOf(core).period = rates().latency_poll * 1e9;
  recorder_.Clear();
  SuspendUntilWritten(core, addr);
}

uint64_t TimedMode::ReadGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes,
                               Where where) {
  const uint64_t addr = tensor.addr + offset;
  Core& core = Current();
  CoreClock& clock = ClockOf(core);
  uint64_t& line = clock.lines[addr / 64 % kCacheLines];
  if (line == addr / 64) {
    recorder_.AddScalar(rates().scalar_cached_access);
    return Peek(addr, bytes);
  }
  line = addr / 64;
  const double latency = rates().Cycles(rates().latency_poll * 1e9);
  const Allocation* allocation = FindAllocation(addr);
  if (allocation == nullptr) {
    Fail("address", Format("GetValue: %s", DescribeAddress(addr).c_str()), where);
  }
  if (!allocation->writable) {
    recorder_.AddScalar(latency);
    return Peek(addr, bytes);
  }
  Synchronise(core);
  uint64_t value = Peek(addr, bytes);
  if (allocation->symmetric) {
    if (SameAsBefore(core, addr, 0, bytes, value, where)) {
      core.where = where;
      core.api = "GetValue";
      AwaitChange(core, addr);
      value = Peek(addr, bytes);
      SameAsBefore(core, addr, 0, bytes, value, where);
    }
    clock.last_read = now_;
    if (CounterAt(core, addr) >= 0) {
      if (!clock.signalled) clock.task.alone = 0;
      clock.task.ready = now_ + rates().latency_poll * 1e9;
    }
  }
  recorder_.AddScalar(latency);
  return value;
}

void TimedMode::WriteGlobal(const GlobalRef& tensor, uint64_t offset, uint32_t bytes,
                            uint64_t value, Where) {
  const uint64_t addr = tensor.addr + offset;
  Core& core = Current();
  ++core.effects;
  const Allocation* allocation = FindAllocation(addr);
  if (allocation != nullptr && allocation->symmetric) Synchronise(core);
  std::memcpy(GlobalData(addr), &value, bytes);
  WakeReaders(addr, addr + bytes);
  recorder_.AddScalar(rates().scalar_cached_access);
}

void TimedMode::CleanCache(const GlobalRef& tensor, bool whole_cache, Where) {
  CoreClock& clock = ClockOf(Current());
  const uint64_t line = tensor.addr / 64;
  RecordScalarCall();
  if (whole_cache) {
    std::fill(clock.lines, clock.lines + kCacheLines, 0);
  } else if (clock.lines[line % kCacheLines] == line) {
    clock.lines[line % kCacheLines] = 0;
  }
}

uint64_t TimedMode::ReadLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, Where) {
  recorder_.AddScalar(rates().scalar_local_access);
  uint64_t value = 0;
  std::memcpy(&value, LocalData(Current(), tensor) + offset, bytes);
  return value;
}

void TimedMode::WriteLocal(const LocalRef& tensor, uint64_t offset, uint32_t bytes, uint64_t value,
                           Where) {
  Core& core = Current();
  recorder_.AddScalar(rates().scalar_local_access);
  ++core.effects;
  std::memcpy(LocalData(core, tensor) + offset, &value, bytes);
}

Core& TimedMode::Enter(const char* api, pipe_t pipe, Where where, std::initializer_list<Span>,
                       bool passive) {
  Core& core = Current();
  core.api = api;
  core.where = where;
  if (!recorder_.TakeTimed() && pipe != PIPE_S) {
    Fail("unsupported", Format("%s: timed runs do not know how long it takes", api), where);
  }
  core.effects += !passive;
  return core;
}

void TimedMode::RecordScalarCall() { recorder_.AddScalar(rates().scalar_call); }

uint64_t TimedMode::Traffic(uint64_t addr, const Blocks& blocks, uint64_t pitch, bool write) {
  if (blocks.count == 0 || blocks.bytes == 0) return 0;
  return recorder_.Traffic(addr, blocks.count, blocks.bytes, pitch, write);
}

void TimedMode::Record(Core& core, StepKind kind, pipe_t pipe, int flag, uint64_t size) {
  ++core.effects;
  recorder_.Add(kind, PipeNumber(pipe), flag, size);
}

void TimedMode::CopyIn(const char* api, const LocalRef& dst, const GlobalRef& src,
                       const Blocks& blocks, const Padding& padding, DType type, Where where) {
  Core& core = Current();
  const uint64_t effects = core.effects;
  const int flag = IsRemote(core, src.addr) | (core.aic ? 2 : 0);
  Record(core, StepKind::kIn, PIPE_MTE2, flag, Traffic(src.addr, blocks, blocks.src_pitch, false));
  if (!IsInteger(type)) return;
  if (blocks.count == 1 && blocks.bytes <= kPollBytes && blocks.bytes != 0) {
    core.effects = effects;
    const Allocation* allocation = FindAllocation(src.addr);
    if (allocation != nullptr && allocation->symmetric) {
      const uint32_t bytes = std::min<uint32_t>(blocks.bytes, 8);
      if (SameAsBefore(core, src.addr, dst.addr, bytes, Peek(src.addr, bytes), where)) {
        Synchronise(core);
        core.where = where;
        AwaitChange(core, src.addr);
        SameAsBefore(core, src.addr, dst.addr, bytes, Peek(src.addr, bytes), where);
      }
      ClockOf(core).last_read = now_;
    }
  }
  Model::CopyIn(api, dst, src, blocks, padding, type, where);
}

void TimedMode::SendFrom(Core& core, uint64_t addr, const uint8_t* data, uint32_t bytes, bool add,
                         DType type) {
  Synchronise(core);
  CoreClock& clock = ClockOf(core);
  const uint32_t number = clock.signals++;
  if (clock.in_task) {
    if (!clock.started) clock.task.start = now_;
    if (!clock.signalled) clock.task.done = now_;
    clock.started = clock.signalled = true;
  }
  const bool remote = IsRemote(core, addr);
  ++clock.task.signals;
  clock.task.remote += remote;
  const double latency = remote ? rates().latency_remote_signal : rates().latency_signal;
  SignalWrite signal = {addr, bytes, add, type, {}};
  if (job_.mirror && remote) signal.addr = MirroredCounter(core, clock.task.slot, number);
  std::memcpy(signal.data, data, bytes);
  SendSignal(signal, now_ + latency * 1e9);
  Record(core, StepKind::kOut, PIPE_MTE3, remote, recorder_.Traffic(addr, 1, bytes, bytes, true));
}

void TimedMode::Signal(uint64_t addr, int32_t value, bool add, int rank, Where where) {
  const uint64_t target = PeerAddress(addr, rank, where);
  const auto* data = reinterpret_cast<const uint8_t*>(&value);
  SendFrom(Current(), target, data, sizeof(value), add, DType::kInt32);
}

uint64_t TimedMode::PeerAddress(uint64_t addr, int rank, Where where) {
  CheckPeer(rank, where);
  return AddressOnRank(addr, rank);
}

void TimedMode::CopyOut(const char* api, const GlobalRef& dst, const LocalRef& src,
                        const Blocks& blocks, DType type, Where where) {
  Core& core = Current();
  if (IsInteger(type) && blocks.count == 1 && blocks.bytes <= kSignalBytes && blocks.bytes != 0) {
    const uint64_t home = job_.mirror ? recorder_.AtHome(dst.addr) : dst.addr;
    const Allocation* allocation = FindAllocation(home);
    if (allocation != nullptr && allocation->symmetric && MayBeCounter(*allocation, home)) {
      SendFrom(core, dst.addr, LocalData(core, src), blocks.bytes, core.atomic, type);
      return;
    }
  }
  if (core.atomic) Traffic(dst.addr, blocks, blocks.dst_pitch, false);
  Record(core, StepKind::kOut, PIPE_MTE3, IsRemote(core, dst.addr),
         Traffic(dst.addr, blocks, blocks.dst_pitch, true));
  if (!IsInteger(type) || (job_.mirror && IsRemote(core, dst.addr))) return;
  Model::CopyOut(api, dst, src, blocks, type, where);
}

void TimedMode::CopyInNz(const LocalRef&, const GlobalRef& src, const NzShape& shape, Where) {
  Core& core = Current();
  if (shape.matrices == 0 || shape.rows == 0 || shape.columns == 0) return;
  const uint64_t bytes = uint64_t{shape.columns} * shape.width;
  uint64_t moved = 0;
  for (uint64_t i = 0; i < shape.matrices; ++i) {
    moved += recorder_.Traffic(src.addr + i * shape.src_matrix_pitch, shape.rows, bytes,
                               shape.src_row_pitch, false);
  }
  Record(core, StepKind::kIn, PIPE_MTE2, IsRemote(core, src.addr) | 2, moved);
}

void TimedMode::FillL1(const LocalRef& dst, uint32_t count, uint32_t bytes, uint32_t pitch,
                       uint64_t value, uint32_t width, Where where) {
  Record(Current(), StepKind::kFillL1, PIPE_MTE2, 0, uint64_t{count} * bytes);
  Model::FillL1(dst, count, bytes, pitch, value, width, where);
}

void TimedMode::SetAtomic(bool on, DType type, Where where) {
  RecordScalarCall();
  Model::SetAtomic(on, type, where);
}

void TimedMode::LoadFractals(const LocalRef& dst, const LocalRef&, const FractalShape& shape, DType,
                             Where) {
  Record(Current(), StepKind::kLoad, PIPE_MTE1, SpaceOf(dst.position) == kL0B,
         shape.repeat * kFractalBytes);
}

void TimedMode::Multiply(const LocalRef&, const LocalRef&, const LocalRef&, const MmadShape& shape,
                         DType, Where) {
  const auto fractals = [](uint32_t size) { return (size + kFractalSide - 1) / kFractalSide; };
  Record(Current(), StepKind::kMmad, PIPE_M, 0,
         uint64_t{fractals(shape.m)} * fractals(shape.n) * fractals(shape.k));
}

void TimedMode::StoreResult(const GlobalRef& dst, const LocalRef&, const FixpipeShape& shape,
                            DType type, Where) {
  Core& core = Current();
  if (shape.rows == 0 || shape.columns == 0) return;
  const uint32_t width = WidthOf(type);
  const uint64_t bytes = uint64_t{shape.columns} * width;
  const uint64_t pitch = uint64_t{shape.dst_pitch} * width;
  // L2 reads what it adds to; the core moves the bytes once.
  if (core.atomic) recorder_.Traffic(dst.addr, shape.rows, bytes, pitch, false);
  Record(core, StepKind::kOut, PIPE_FIX, IsRemote(core, dst.addr),
         recorder_.Traffic(dst.addr, shape.rows, bytes, pitch, true));
}

bool TimedMode::RecordVector(DType type, uint64_t bytes, int64_t elements, bool slow) {
  double cycles = slow ? std::ceil(static_cast<double>(elements) / rates().vector_slow_elements)
                       : std::ceil(static_cast<double>(bytes) / rates().vector_bytes_per_cycle);
  cycles = std::max(cycles, rates().vector_floor);
  Record(Current(), StepKind::kVector, PIPE_V, 0, static_cast<uint64_t>(cycles));
  return IsInteger(type);
}

void TimedMode::Binary(BinaryOp op, const LocalRef& dst, const LocalRef& a, const LocalRef& b,
                       DType type, int64_t count, Where where) {
  const uint64_t bytes = VectorBytes(ApiName(op), type, count, where);
  if (!RecordVector(type, bytes, count, op == BinaryOp::kDiv)) return;
  Model::Binary(op, dst, a, b, type, count, where);
}

void TimedMode::Unary(UnaryOp op, const LocalRef& dst, const LocalRef& src, DType type,
                      int64_t count, Where where) {
  const uint64_t bytes = VectorBytes(ApiName(op), type, count, where);
  const bool slow = op == UnaryOp::kExp || op == UnaryOp::kLn || op == UnaryOp::kSqrt;
  if (!RecordVector(type, bytes, count, slow)) return;
  Model::Unary(op, dst, src, type, count, where);
}

void TimedMode::Scalar(ScalarOp op, const LocalRef& dst, const LocalRef& src, double scalar,
                       DType type, int64_t count, Where where) {
  const uint64_t bytes = VectorBytes(ApiName(op), type, count, where);
  if (!RecordVector(type, bytes, count, false)) return;
  Model::Scalar(op, dst, src, scalar, type, count, where);
}

void TimedMode::Convert(const LocalRef& dst, DType dst_type, const LocalRef& src, DType src_type,
                        AscendC::RoundMode mode, int64_t count, Where where) {
  const uint64_t width = std::max(WidthOf(dst_type), WidthOf(src_type));
  const bool integers = RecordVector(src_type, static_cast<uint64_t>(count) * width, count, false);
  if (!integers || !IsInteger(dst_type)) return;
  Model::Convert(dst, dst_type, src, src_type, mode, count, where);
}

void TimedMode::RecordFlag(bool set, AscendC::HardEvent event, int32_t id) {
  const PipePair& pipes = PipesOf(event);
  recorder_.Add(set ? StepKind::kSet : StepKind::kWait,
                PipeNumber(pipes.from) | PipeNumber(pipes.to) << 4,
                static_cast<int>(event) * 8 + id, 0);
}

void TimedMode::SetFlag(AscendC::HardEvent event, int32_t id, Where) {
  RecordFlag(true, event, id);
}

void TimedMode::WaitFlag(AscendC::HardEvent event, int32_t id, Where) {
  RecordFlag(false, event, id);
}

void TimedMode::Barrier(pipe_t pipe, Where) {
  recorder_.Add(StepKind::kBarrier, PipeNumber(pipe), 0, 0);
}

void TimedMode::MemoryBarrier(AscendC::MemDsbT, Where) { recorder_.Add(StepKind::kDrain, 0, 0, 0); }

void TimedMode::CrossCoreSet(uint8_t mode, pipe_t pipe, uint16_t id, Where where) {
  Synchronise(Current());
  Model::CrossCoreSet(mode, pipe, id, where);
}

void TimedMode::CrossCoreWait(uint16_t id, Where where) {
  Synchronise(Current());
  Model::CrossCoreWait(id, where);
}

void TimedMode::SyncAll(bool vector_only, Where where) {
  Synchronise(Current());
  Model::SyncAll(vector_only, where);
}

int64_t TimedMode::Cycle(Where) {
  if (!recorder_.empty()) Synchronise(Current());
  // A loop that waits for the system counter advances tick by tick.
  recorder_.AddScalar(rates().clock_frequency / rates().clock_system_counter);
  const double ns = now_ + rates().Ns(recorder_.scalar());
  return static_cast<int64_t>(ns * rates().clock_system_counter / 1e9);
}

}  // namespace cpu_model
