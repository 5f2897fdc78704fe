// API calls in a timed run: recorded, done where integers are moved.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "clocks/timing_state.h"

namespace cpu_model {
namespace timed {

constexpr uint64_t kSignalBytes = 64;
constexpr uint64_t kPollBytes = 64;

static Core& Current() { return *TheEngine().current; }

static int Remote(const Core& core, uint64_t addr) {
  return TheState().recorder.RankOf(addr) != core.rank;
}

static uint64_t Peek(uint64_t addr, uint32_t bytes) {
  uint64_t value = 0;
  std::memcpy(&value, GlobalData(addr), bytes);
  return value;
}

// A look at memory that others write. Seeing what the last look saw, with nothing done in between,
// it is one of a loop: the core sleeps until a look finds something else.
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

static void SleepForChange(Core& core, uint64_t addr) {
  State& state = TheState();
  CoreClock& clock = ClockOf(core);
  const double since = clock.looked;
  clock.period = std::max(state.now - clock.looked, 1.0);
  clock.looked = state.now;
  core.wait_addr = addr;
  SleepUntilWritten(core, addr);
  const int counter = CounterAt(core, addr);
  if (counter >= 0 && state.now - since > clock.waited) {
    clock.waited = state.now - since;
    clock.task.event = counter;
  }
}

void Look(Core& core) {
  Meet(core);
  ClockOf(core).looked = TheState().now;
  TheState().recorder.Scalar(TheState().rates().Cycles(TheState().rates().latency_poll * 1e9));
}

void AwaitWrite(Core& core, uint64_t addr) {
  ClockOf(core).period = TheState().rates().latency_poll * 1e9;
  TheState().recorder.Clear();
  SleepUntilWritten(core, addr);
}

uint64_t Read(uint64_t addr, uint32_t bytes, Where where) {
  State& state = TheState();
  Core& core = Current();
  CoreClock& clock = ClockOf(core);
  uint64_t& line = clock.lines[addr / 64 % kCacheLines];
  if (line == addr / 64) {
    state.recorder.Scalar(state.rates().scalar_cached_access);
    return Peek(addr, bytes);
  }
  line = addr / 64;
  const double latency = state.rates().Cycles(state.rates().latency_poll * 1e9);
  const Region* region = FindRegion(addr);
  if (region == nullptr) {
    Fail("address", Format("GetValue: %s", DescribeAddress(addr).c_str()), where);
  }
  if (!region->writable) {
    state.recorder.Scalar(latency);
    return Peek(addr, bytes);
  }
  Meet(core);
  uint64_t value = Peek(addr, bytes);
  if (region->symmetric) {
    if (SameAsBefore(core, addr, 0, bytes, value, where)) {
      core.where = where;
      core.api = "GetValue";
      SleepForChange(core, addr);
      value = Peek(addr, bytes);
      SameAsBefore(core, addr, 0, bytes, value, where);
    }
    clock.looked = state.now;
    if (CounterAt(core, addr) >= 0) {
      if (!clock.signalled) clock.task.alone = 0;
      clock.task.ready = state.now + state.rates().latency_poll * 1e9;
    }
  }
  state.recorder.Scalar(latency);
  return value;
}

void Write(uint64_t addr, uint32_t bytes, uint64_t value) {
  State& state = TheState();
  Core& core = Current();
  ++core.effects;
  const Region* region = FindRegion(addr);
  if (region != nullptr && region->symmetric) Meet(core);
  std::memcpy(GlobalData(addr), &value, bytes);
  WakeWatchers(addr, addr + bytes);
  state.recorder.Scalar(state.rates().scalar_cached_access);
}

void Clean(uint64_t addr, bool all) {
  CoreClock& clock = ClockOf(Current());
  Scalar();
  if (all) {
    std::fill(clock.lines, clock.lines + kCacheLines, 0);
  } else if (clock.lines[addr / 64 % kCacheLines] == addr / 64) {
    clock.lines[addr / 64 % kCacheLines] = 0;
  }
}

void Entered(const char* api, pipe_t pipe, Where where) {
  if (TheState().recorder.TakeTimed() || pipe == PIPE_S) return;
  Fail("unsupported", Format("%s: timed runs do not know how long it takes", api), where);
}

void Scalar() { TheState().recorder.Scalar(TheState().rates().scalar_call); }
void LocalAccess() { TheState().recorder.Scalar(TheState().rates().scalar_local_access); }

static uint64_t Traffic(uint64_t addr, const Blocks& blocks, uint64_t pitch, bool write) {
  if (blocks.count == 0 || blocks.bytes == 0) return 0;
  return TheState().recorder.Traffic(addr, blocks.count, blocks.bytes, pitch, write);
}

static void Record(Core& core, StepKind kind, pipe_t pipe, int flag, uint64_t size) {
  ++core.effects;
  TheState().recorder.Add(kind, PipeNumber(pipe), flag, size);
}

bool In(const LocalRef& dst, const GlobalRef& src, const Blocks& blocks, DType type, Where where) {
  Core& core = Current();
  const uint64_t effects = core.effects;
  const int flag = Remote(core, src.addr) | (core.aic ? 2 : 0);
  Record(core, StepKind::kIn, PIPE_MTE2, flag, Traffic(src.addr, blocks, blocks.src_pitch, false));
  if (!IsInteger(type)) return false;
  if (blocks.count != 1 || blocks.bytes > kPollBytes || blocks.bytes == 0) return true;
  core.effects = effects;
  const Region* region = FindRegion(src.addr);
  if (region == nullptr || !region->symmetric) return true;
  const uint32_t bytes = std::min<uint32_t>(blocks.bytes, 8);
  if (SameAsBefore(core, src.addr, dst.addr, bytes, Peek(src.addr, bytes), where)) {
    Meet(core);
    core.where = where;
    SleepForChange(core, src.addr);
    SameAsBefore(core, src.addr, dst.addr, bytes, Peek(src.addr, bytes), where);
  }
  ClockOf(core).looked = TheState().now;
  return true;
}

// The counter of this rank that a peer signals when this rank signals one of a peer.
static uint64_t MirroredCounter(const Core& core, uint32_t slot, uint32_t number) {
  const auto found = timing_job.mirrored.find(uint64_t{slot} * 256 + number);
  if (found == timing_job.mirrored.end()) {
    Fail("state", Format("signal %u of a task has no mirrored counter", number), core.where);
  }
  return CounterAddress(core, found->second);
}

void SignalFrom(Core& core, uint64_t addr, const uint8_t* data, uint32_t bytes, bool add,
                DType type) {
  State& state = TheState();
  Meet(core);
  CoreClock& clock = ClockOf(core);
  const uint32_t number = clock.signals++;
  if (clock.in_task) {
    if (!clock.started) clock.task.start = state.now;
    if (!clock.signalled) clock.task.done = state.now;
    clock.started = clock.signalled = true;
  }
  const bool remote = Remote(core, addr);
  ++clock.task.signals;
  clock.task.remote += remote;
  const double latency =
      remote ? state.rates().latency_remote_signal : state.rates().latency_signal;
  Signal signal = {addr, bytes, add, type, {}};
  if (timing_job.mirror && remote) signal.addr = MirroredCounter(core, clock.task.slot, number);
  std::memcpy(signal.data, data, bytes);
  SendSignal(signal, state.now + latency * 1e9);
  Record(core, StepKind::kOut, PIPE_MTE3, remote,
         state.recorder.Traffic(addr, 1, bytes, bytes, true));
}

bool Out(const GlobalRef& dst, const LocalRef& src, const Blocks& blocks, DType type) {
  Core& core = Current();
  if (IsInteger(type) && blocks.count == 1 && blocks.bytes <= kSignalBytes && blocks.bytes != 0) {
    const uint64_t home = timing_job.mirror ? TheState().recorder.AtHome(dst.addr) : dst.addr;
    const Region* region = FindRegion(home);
    if (region != nullptr && region->symmetric && MayBeCounter(*region, home)) {
      SignalFrom(core, dst.addr, LocalData(core, src), blocks.bytes, core.atomic, type);
      return false;
    }
  }
  if (core.atomic) Traffic(dst.addr, blocks, blocks.dst_pitch, false);
  Record(core, StepKind::kOut, PIPE_MTE3, Remote(core, dst.addr),
         Traffic(dst.addr, blocks, blocks.dst_pitch, true));
  return IsInteger(type) && !(timing_job.mirror && Remote(core, dst.addr));
}

void InNz(const GlobalRef& src, const NzShape& shape) {
  Core& core = Current();
  if (shape.matrices == 0 || shape.rows == 0 || shape.columns == 0) return;
  const uint64_t bytes = uint64_t{shape.columns} * shape.width;
  uint64_t moved = 0;
  for (uint64_t i = 0; i < shape.matrices; ++i) {
    moved += TheState().recorder.Traffic(src.addr + i * shape.src_matrix_pitch, shape.rows, bytes,
                                         shape.src_row_pitch, false);
  }
  Record(core, StepKind::kIn, PIPE_MTE2, Remote(core, src.addr) | 2, moved);
}

void Fill(uint64_t bytes) { Record(Current(), StepKind::kFillL1, PIPE_MTE2, 0, bytes); }

void Load(const LocalRef& dst, uint32_t fractals) {
  Record(Current(), StepKind::kLoad, PIPE_MTE1, SpaceOf(dst.position) == kL0B, fractals * 512ull);
}

void Mmad(uint32_t m16, uint32_t n16, uint32_t k16) {
  Record(Current(), StepKind::kMmad, PIPE_M, 0, uint64_t{m16} * n16 * k16);
}

void Fix(const GlobalRef& dst, const FixpipeShape& shape, uint32_t width) {
  Core& core = Current();
  if (shape.rows == 0 || shape.columns == 0) return;
  const uint64_t bytes = uint64_t{shape.columns} * width;
  const uint64_t pitch = uint64_t{shape.dst_pitch} * width;
  // L2 reads what it adds to; the core's own way has the bytes once.
  if (core.atomic) TheState().recorder.Traffic(dst.addr, shape.rows, bytes, pitch, false);
  Record(core, StepKind::kOut, PIPE_FIX, Remote(core, dst.addr),
         TheState().recorder.Traffic(dst.addr, shape.rows, bytes, pitch, true));
}

bool Vector(DType type, uint64_t bytes, int64_t elements, bool slow) {
  const Rates& rates = TheState().rates();
  double cycles = slow ? std::ceil(static_cast<double>(elements) / rates.vector_slow_elements)
                       : std::ceil(static_cast<double>(bytes) / rates.vector_bytes_per_cycle);
  cycles = std::max(cycles, rates.vector_floor);
  Record(Current(), StepKind::kVector, PIPE_V, 0, static_cast<uint64_t>(cycles));
  return IsInteger(type);
}

void Flag(bool set, int pair, int id, pipe_t from, pipe_t to) {
  TheState().recorder.Add(set ? StepKind::kSet : StepKind::kWait,
                          PipeNumber(from) | PipeNumber(to) << 4, pair * 8 + id, 0);
}

void BarrierOf(pipe_t pipe) { TheState().recorder.Add(StepKind::kBarrier, PipeNumber(pipe), 0, 0); }

void Drain() { TheState().recorder.Add(StepKind::kDrain, 0, 0, 0); }

int64_t Cycle() {
  State& state = TheState();
  if (!state.recorder.empty()) Meet(Current());
  const Rates& rates = state.rates();
  // A loop that waits for the counter goes on tick by tick.
  state.recorder.Scalar(rates.clock_frequency / rates.clock_system_counter);
  const double ns = state.now + rates.Ns(state.recorder.scalar());
  return static_cast<int64_t>(ns * rates.clock_system_counter / 1e9);
}

}  // namespace timed
}  // namespace cpu_model
