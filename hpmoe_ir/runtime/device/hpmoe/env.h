// The environment of a task: sizes, buffers, events, the route and the peers of its rank.
#ifndef HPMOE_ENV_H_
#define HPMOE_ENV_H_

#include "hpmoe/counters.h"
#include "hpmoe/route.h"
#include "hpmoe/table.h"
#include "hpmoe/tile.h"
#include "shmem.h"

namespace hpmoe {

class Env {
 public:
  // First statement of a kernel. Traps unless the table fits the launch: version, AICs, ranks.
  __aicore__ inline Env(GM_ADDR table, GM_ADDR windows, GM_ADDR workspace, uint32_t tokens,
                        uint32_t launch, const Waits& waits = {0, 0, 0})
      : table_(table),
        windows_(windows),
        workspace_(workspace),
        tokens_(tokens),
        launch_(launch),
        waits_(waits) {
    AscendC::InitSocState();
    DropCache(table);
    InitSignals();
    rank_ = static_cast<uint32_t>(aclshmem_my_pe());
    ranks_ = table_.Word(kWordRanks);
    sizes_ = table_.Word(kWordSizes);
    thresholds_ = table_.Word(kWordThresholds);
    events_ = table_.Word(kWordEvents);
    counters_ = windows_ + static_cast<uint64_t>(table_.Word(kWordCounters)) * kCounterLine;
    Require(table_.Word(kWordMagic) == kTableMagic);
    Require(table_.Word(kWordVersion) == kTableVersion);
    Require(table_.Word(kWordBlocks) == static_cast<uint32_t>(AscendC::GetBlockNum()));
    Require(ranks_ == static_cast<uint32_t>(aclshmem_n_pes()));
  }

  __aicore__ inline uint32_t Rank() const { return rank_; }
  __aicore__ inline uint32_t Ranks() const { return ranks_; }
  __aicore__ inline uint32_t Tokens() const { return tokens_; }
  __aicore__ inline uint32_t Launch() const { return launch_; }

  // The i-th size; the generated code has an enumerator for each i.
  __aicore__ inline uint32_t Size(uint32_t i) const { return table_.Word(i, sizes_); }
  // A 64-bit size: sizes i (low half) and i + 1.
  __aicore__ inline uint64_t Offset(uint32_t i) const {
    return Size(i) | static_cast<uint64_t>(Size(i + 1)) << 32;
  }

  // The buffer at Offset(i) of this rank's workspace, or of its windows.
  template <typename T>
  __aicore__ inline __gm__ T* Workspace(uint32_t i) const {
    return reinterpret_cast<__gm__ T*>(workspace_ + Offset(i));
  }
  template <typename T>
  __aicore__ inline __gm__ T* Window(uint32_t i) const {
    return reinterpret_cast<__gm__ T*>(windows_ + Offset(i));
  }
  // The same address in the windows of `peer`. The library returns an address for every rank, also
  // for one whose memory this rank can't access directly: the host has checked that there is none.
  template <typename T>
  __aicore__ inline __gm__ T* Peer(__gm__ T* address, uint32_t peer) const {
    return reinterpret_cast<__gm__ T*>(
        aclshmem_ptr(reinterpret_cast<__gm__ void*>(address), static_cast<int>(peer)));
  }
  // The i-th rank counted from this one, so that ranks do not all access the same peer at once.
  __aicore__ inline uint32_t Neighbour(uint32_t i) const { return (rank_ + i) % ranks_; }

  // Tokens of chunk b of `chunks`.
  __aicore__ inline Rows TokenChunk(uint32_t b, uint32_t chunks) const {
    return Chunk({0, tokens_}, b, chunks, 1);
  }
  // The route at Offset(i) of the workspace. Only after the event of the task that wrote it.
  __aicore__ inline Route LoadRoute(uint32_t i, uint32_t experts) const {
    __gm__ int32_t* words = Workspace<int32_t>(i);
    if (i != fresh_route_) {
      DropLines(words, RouteLayout(experts, ranks_).words);
      fresh_route_ = i;
    }
    return Route(words, experts, ranks_);
  }

  __aicore__ inline __gm__ int32_t* Counter(uint32_t event) const {
    Require(event < events_);
    return reinterpret_cast<__gm__ int32_t*>(counters_ +
                                             static_cast<uint64_t>(event) * kCounterLine);
  }
  // The counter that this launch uses of an event with two copies, which are `events` lines apart.
  __aicore__ inline uint32_t InTurn(uint32_t event, uint32_t events) const {
    return event + launch_ % 2 * events;
  }
  // Returns once the event has had `threshold` signals in each launch so far.
  __aicore__ inline void Wait(uint32_t event) const { WaitFor(event, launch_); }
  // The same for an event with two copies, used in alternate launches.
  __aicore__ inline void WaitInTurn(uint32_t event, uint32_t events) const {
    WaitFor(InTurn(event, events), launch_ / 2 + launch_ % 2);
  }
  // Adds 1 to the event's counter once all reads and writes of this core so far are complete.
  __aicore__ inline void Signal(uint32_t event) const { SignalCounter(Counter(event)); }
  __aicore__ inline void SignalPeer(uint32_t event, uint32_t peer) const {
    SignalCounter(Peer(Counter(event), peer));
  }

  // Adds the first word of `count`, in UB, to a counter of this rank, as a signal adds 1. Earlier
  // writes of this core must be complete.
  __aicore__ inline void Add(uint32_t event, const AscendC::LocalTensor<int32_t>& count) const {
    AscendC::SetAtomicAdd<int32_t>();
    StoreList(Counter(event), count, 1);
    AscendC::SetAtomicNone();
  }

  __aicore__ inline const Table& GetTable() const { return table_; }

  // Records the slot of the task that this core starts, for traces and fault reports.
  __aicore__ inline void StartTask(uint32_t slot) const {
    slot_ = slot;
    AscendC::PrintTimeStamp(slot);
  }

 private:
  // Words of the line in which a core records the wait that it gave up. The lines of all cores,
  // AIC then AIV, follow the counters; the host initialises them to 0.
  enum GivenUp : uint32_t { kLaunch, kEvent, kSeen, kTarget, kSlot, kGivenUpWords };

  // Returns once the event has had `launches` times its threshold of signals. If the budget of a
  // wait ends first, the core records the wait and traps.
  __aicore__ inline void WaitFor(uint32_t event, uint32_t launches) const {
    const uint32_t target = table_.Word(event, thresholds_) * launches;
    if (waits_.budget == 0 && waits_.poll_aic == 0 && waits_.poll_aiv == 0) {
      WaitCounter(Counter(event), target);
      return;
    }
    const int32_t seen = WaitCounter(Counter(event), target, waits_);
    if (!HasReached(seen, target)) GiveUp(event, seen, target);
  }

  __aicore__ inline void GiveUp(uint32_t event, int32_t seen, uint32_t target) const {
    uint32_t core = static_cast<uint32_t>(AscendC::GetBlockIdx());
    if ASCEND_IS_AIV {
      core += table_.Word(kWordBlocks);
    }
    int32_t words[kGivenUpWords];
    words[kLaunch] = static_cast<int32_t>(launch_);
    words[kEvent] = static_cast<int32_t>(event);
    words[kSeen] = seen;
    words[kTarget] = static_cast<int32_t>(target);
    words[kSlot] = static_cast<int32_t>(slot_);
    const uint64_t line = static_cast<uint64_t>(events_ + core) * kCounterLine;
    StoreWords(reinterpret_cast<__gm__ int32_t*>(counters_ + line), words);
    AscendC::Trap();
  }

  Table table_;
  GM_ADDR windows_;
  GM_ADDR workspace_;
  GM_ADDR counters_;
  uint32_t tokens_;
  uint32_t launch_;
  Waits waits_;
  mutable uint32_t slot_ = 0;                    // for GiveUp
  mutable uint32_t fresh_route_ = ~uint32_t{0};  // whose lines this core has dropped: LoadRoute
  uint32_t rank_;
  uint32_t ranks_;
  uint32_t sizes_;
  uint32_t thresholds_;
  uint32_t events_;
};

}  // namespace hpmoe

#endif  // HPMOE_ENV_H_
