// PlaceTokens: the positions of the pairs of one token chunk in the rank's send order.
#ifndef HPMOE_PLACE_TOKENS_H_
#define HPMOE_PLACE_TOKENS_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/detail/row_sum.h"
#include "hpmoe/detail/word_pairs.h"

namespace hpmoe {

// The tokens of a chunk that go to one expert are consecutive in the send order, so they are
// collected in UB and written as one run per expert: other chunks write the adjacent words, and
// only a DMA can write part of a cache line without touching the rest.
//
// The position of an expert's next pair in the send order and its place in the runs are one pair of
// words: two scalar accesses for a pair, besides one for each of the two lists.
class TokenPlacer {
 public:
  __aicore__ inline TokenPlacer(const Tile<int32_t>& chunk_counts, uint32_t b)
      : experts_(chunk_counts.cols),
        begin_(Ub<int32_t>(kBegin, kMaxExperts)),
        count_(Ub<int32_t>(kCount, kMaxExperts)),
        next_(Ub<int32_t>(kNext, 2 * kMaxExperts)),
        ids_(Ub<int32_t>(kIds, kPiece)),
        position_(Ub<int32_t>(kPosition, kPiece)),
        runs_(Ub<int32_t>(kRuns, kRunsWords)) {
    Require(experts_ <= kMaxExperts);
    Start(chunk_counts, b);
  }

  // Places pairs first .. first + n - 1 of the chunk, pair i being choice i % K of a token.
  // `counts`: their number for each expert, if they are all pairs of the chunk; else null.
  __aicore__ inline void Place(const Tile<int32_t>& ids, __gm__ int32_t* order,
                               __gm__ int32_t* position, uint32_t first, uint32_t n,
                               __gm__ int32_t* counts) {
    LoadList(ids_, ids.data + first, n);
    if (counts != nullptr) LoadList(count_, counts, experts_);
    Handover<AscendC::HardEvent::MTE2_S>();
    if (counts == nullptr) CountPairs(n);
    ReserveRuns();
    const int32_t pair = static_cast<int32_t>(ids.first * ids.cols + first);
    for (uint32_t i = 0; i + 1 < n; i += 2) {
      const WordPair id = GetPair(ids_, i / 2);
      const int32_t low = Next(id.low, pair + static_cast<int32_t>(i));
      SetPair(position_, i / 2, {low, Next(id.high, pair + static_cast<int32_t>(i + 1))});
    }
    if ((n & 1) != 0) {
      position_.SetValue(n - 1, Next(ids_.GetValue(n - 1), pair + static_cast<int32_t>(n - 1)));
    }
    Handover<AscendC::HardEvent::S_MTE3>();
    StoreList(position + first, position_, n);
    StoreRuns(order);
    // The next pairs of an expert follow these.
    Handover<AscendC::HardEvent::S_V>();
    AscendC::Add(begin_, begin_, count_, static_cast<int32_t>(experts_));
    Handover<AscendC::HardEvent::V_S>();
    Handover<AscendC::HardEvent::MTE3_S>();
    Handover<AscendC::HardEvent::S_MTE2>();
  }

  static constexpr uint32_t kPiece = 2048 / kListCut;  // pairs placed at a time

 private:
  static constexpr uint32_t kWord = sizeof(int32_t);
  static constexpr uint32_t kAlign = kDataBlock / kWord;  // each run starts at a data block
  static constexpr uint32_t kBegin = 0;                   // UB addresses
  static constexpr uint32_t kCount = kBegin + kMaxExperts * kWord;
  static constexpr uint32_t kNext = kCount + kMaxExperts * kWord;
  static constexpr uint32_t kIds = kNext + 2 * kMaxExperts * kWord;
  static constexpr uint32_t kPosition = kIds + kPiece * kWord;
  static constexpr uint32_t kRuns = kPosition + kPiece * kWord;
  // At most one run a pair, each padded.
  static constexpr uint32_t kRunsWords = kPiece + kPiece * (kAlign - 1);
  static_assert(kRuns + kRunsWords * kWord <= kUbBytes, "UB");

  // begin: the first position of each expert's pairs of chunk b: all pairs of lower experts, then
  // this expert's pairs of earlier chunks.
  __aicore__ inline void Start(const Tile<int32_t>& chunk_counts, uint32_t b) {
    const AscendC::LocalTensor<int32_t> earlier = count_;  // its own counts come later
    SumRowsAround(earlier, begin_, runs_, chunk_counts, b);
    ExclusiveSums(begin_, begin_, 0, experts_);
    Handover<AscendC::HardEvent::S_V>();
    AscendC::Add(begin_, begin_, earlier, static_cast<int32_t>(experts_));
    Handover<AscendC::HardEvent::V_S>();
  }

  // Counts the piece's pairs for each expert.
  __aicore__ inline void CountPairs(uint32_t n) {
    for (uint32_t x = 0; x < experts_; ++x) count_.SetValue(x, 0);
    VisitWords(ids_, n, [&](uint32_t, int32_t id) __aicore__ {
      Require(static_cast<uint32_t>(id) < experts_);
      count_.SetValue(static_cast<uint32_t>(id), count_.GetValue(static_cast<uint32_t>(id)) + 1);
    });
  }

  // Calls visit(expert, first position, first word of its run, pairs) for all experts.
  template <class Visit>
  __aicore__ inline void VisitRuns(const Visit& visit) const {
    uint32_t run = 0;
    for (uint32_t x = 0; x + 1 < experts_; x += 2) {
      const WordPair begin = GetPair(begin_, x / 2);
      const WordPair count = GetPair(count_, x / 2);
      visit(x, begin.low, run, count.low);
      run += RoundUp(static_cast<uint32_t>(count.low), kAlign);
      visit(x + 1, begin.high, run, count.high);
      run += RoundUp(static_cast<uint32_t>(count.high), kAlign);
    }
    if ((experts_ & 1) != 0) {
      visit(experts_ - 1, begin_.GetValue(experts_ - 1), run, count_.GetValue(experts_ - 1));
    }
  }

  __aicore__ inline void ReserveRuns() {
    VisitRuns([&](uint32_t x, int32_t begin, uint32_t run, int32_t)
                  __aicore__ { SetPair(next_, x, {begin, static_cast<int32_t>(run)}); });
  }

  // Puts a pair of expert x into its run and returns its position in the send order.
  __aicore__ inline int32_t Next(int32_t x, int32_t pair) {
    Require(static_cast<uint32_t>(x) < experts_);
    const WordPair next = GetPair(next_, static_cast<uint32_t>(x));
    SetPair(next_, static_cast<uint32_t>(x), {next.low + 1, next.high + 1});
    runs_.SetValue(static_cast<uint32_t>(next.high), pair);
    return next.low;
  }

  __aicore__ inline void StoreRuns(__gm__ int32_t* order) {
    VisitRuns([&](uint32_t, int32_t begin, uint32_t run, int32_t count) __aicore__ {
      if (count > 0) StoreList(order + begin, runs_[run], static_cast<uint32_t>(count));
    });
  }

  uint32_t experts_;
  AscendC::LocalTensor<int32_t> begin_;
  AscendC::LocalTensor<int32_t> count_;
  AscendC::LocalTensor<int32_t> next_;
  AscendC::LocalTensor<int32_t> ids_;
  AscendC::LocalTensor<int32_t> position_;
  AscendC::LocalTensor<int32_t> runs_;
};

// ids [rows x K] of token chunk b, ids.first its first token; chunk_counts [B x E]; order: the
// whole list of pairs t * K + k in send order; position [rows x K]. Rows may be 0.
__aicore__ inline void PlaceTokens(const Tile<int32_t>& ids, const Tile<int32_t>& chunk_counts,
                                   const Tile<int32_t>& order, const Tile<int32_t>& position,
                                   uint32_t b) {
  const uint32_t pairs = ids.rows * ids.cols;
  if (pairs == 0) return;
  Require(ids.rows == 1 || (ids.pitch == ids.cols && position.pitch == position.cols));
  __gm__ int32_t* own = chunk_counts.data + static_cast<uint64_t>(b) * chunk_counts.pitch;
  TokenPlacer placer(chunk_counts, b);
  for (uint32_t first = 0; first < pairs; first += TokenPlacer::kPiece) {
    const uint32_t n = Min(TokenPlacer::kPiece, pairs - first);
    placer.Place(ids, order.data, position.data, first, n, n == pairs ? own : nullptr);
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace hpmoe

#endif  // HPMOE_PLACE_TOKENS_H_
