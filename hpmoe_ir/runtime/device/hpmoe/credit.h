// Credit: the signals of puts without rows. Such a put sends none; the receiving rank, which knows
// the counts, adds them to its counters itself.
#ifndef HPMOE_CREDIT_H_
#define HPMOE_CREDIT_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/env.h"

namespace hpmoe {

// For the core that has written this rank's route, after it has signalled that: the route is then
// complete in global memory. Counts are collected in UB, one data block for each event.
class Credit {
 public:
  enum Side { kReceived, kSent };

  // `route`: size index of the route's offset in the workspace. `side`: whether puts are counted by
  // rows received or rows sent. `events`: number of events.
  __aicore__ inline Credit(const Env& env, uint32_t route, uint32_t experts, Side side,
                           uint32_t events)
      : env_(env),
        events_(events),
        begin_(Ub<int32_t>(kBegin, kBeginWords)),
        count_(Ub<int32_t>(kCount, kCountWords)) {
    Require(events <= kMaxCredits && experts <= kMaxExperts);
    AscendC::Duplicate(count_, int32_t{0}, static_cast<int32_t>(events * kBlockWords));
    const RouteLayout layout(experts, env.Ranks());
    __gm__ int32_t* words = env.Workspace<int32_t>(route);
    ok_ = env.LoadRoute(route, experts).Ok();
    LoadList(begin_, words + (side == kSent ? RouteLayout::kSentBegin : layout.received_begin),
             experts + 1);
    Handover<AscendC::HardEvent::MTE2_S>();
    Handover<AscendC::HardEvent::V_S>();
  }

  // Rows received for local expert e from a source.
  __aicore__ inline uint32_t Received(uint32_t e, uint32_t source) const {
    return Between(e * env_.Ranks() + source);
  }
  // Rows sent to global expert x.
  __aicore__ inline uint32_t Sent(uint32_t x) const { return Between(x); }

  // Returns how many of `chunks` chunks of `rows` rows are not empty.
  __aicore__ static inline uint32_t ChunksOf(uint32_t rows, uint32_t chunks, uint32_t align) {
    return rows == 0 ? 0 : CeilDiv(rows, RoundUp(CeilDiv(rows, chunks), align));
  }

  // Counts `puts` puts without rows, which would have signalled event `i`.
  __aicore__ inline void Add(uint32_t i, uint32_t puts) const {
    Require(i < events_);
    const int32_t count = count_.GetValue(i * kBlockWords);
    count_.SetValue(i * kBlockWords, count + static_cast<int32_t>(puts));
  }

  // Adds the counts that are not 0 to the counters of the events from `first` on.
  __aicore__ inline void Send(uint32_t first) const {
    Handover<AscendC::HardEvent::S_MTE3>();
    for (uint32_t i = 0; i < events_; ++i) {
      if (count_.GetValue(i * kBlockWords) != 0) env_.Add(first + i, count_[i * kBlockWords]);
    }
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  static constexpr uint32_t kBeginWords = kMaxExperts + kBlockWords;
  static constexpr uint32_t kCountWords = kMaxCredits * kBlockWords;
  static constexpr uint32_t kBegin = 0;  // UB addresses
  static constexpr uint32_t kCount = kBegin + kBeginWords * sizeof(int32_t);
  static_assert(kCount + kCountWords * sizeof(int32_t) <= kUbBytes, "UB");

  __aicore__ inline uint32_t Between(uint32_t i) const {
    if (!ok_) return 0;
    return static_cast<uint32_t>(begin_.GetValue(i + 1) - begin_.GetValue(i));
  }

  const Env& env_;
  uint32_t events_;
  AscendC::LocalTensor<int32_t> begin_;
  AscendC::LocalTensor<int32_t> count_;
  bool ok_;
};

}  // namespace hpmoe

#endif  // HPMOE_CREDIT_H_
