// The route of one launch: which rows go where. Written by one task (build_route.h), read by all
// cores whose tasks cover rows of the route.
//
// It is read through the data cache. It fills whole lines and doesn't change after that task, so
// that a core drops them once, when that task has ended and before its own first read
// (Env::LoadRoute); lines that were loaded early, or in an earlier launch, are then gone.
#ifndef HPMOE_ROUTE_H_
#define HPMOE_ROUTE_H_

#include "hpmoe/counters.h"
#include "hpmoe/tile.h"

namespace hpmoe {

// Word offsets of the arrays of a route; each array is padded to whole cache lines.
struct RouteLayout {
  static constexpr uint32_t kLine = kCounterLine / sizeof(int32_t);  // words of a cache line
  static constexpr uint32_t kStatus = 0;    // words of the header: 0 ok, 1 a rank is over capacity
  static constexpr uint32_t kOverRank = 1;  // that rank
  static constexpr uint32_t kOverRows = 2;  // its rows
  static constexpr uint32_t kCapacity = 3;  // rows that a rank can receive
  static constexpr uint32_t kSentBegin = kLine;  // E + 1: first row of an expert in the send order

  uint32_t dest_begin;      // E: first row in the owner's receive buffer
  uint32_t received_begin;  // L*R + 1: first row received for (local expert e, source s)
  uint32_t return_begin;    // L*R: first row in the source's send order
  uint32_t words;

  __aicore__ inline RouteLayout(uint32_t experts, uint32_t ranks) {
    const uint32_t parts = experts / ranks * ranks;  // L * R
    dest_begin = kSentBegin + RoundUp(experts + 1, kLine);
    received_begin = dest_begin + RoundUp(experts, kLine);
    return_begin = received_begin + RoundUp(parts + 1, kLine);
    words = return_begin + RoundUp(parts, kLine);
  }
};

// Row ranges of this rank. All are empty if the routing exceeds the capacity of any rank; every
// rank decides so from the same counts.
class Route {
 public:
  __aicore__ inline Route(__gm__ int32_t* words, uint32_t experts, uint32_t ranks)
      : words_(words), layout_(experts, ranks), ranks_(ranks) {
    ok_ = Word(RouteLayout::kStatus) == 0;
  }

  __aicore__ inline bool Ok() const { return ok_; }

  // Rows received for local expert e from the sources first_source .. last_source - 1.
  __aicore__ inline Rows Grouped(uint32_t e, uint32_t first_source, uint32_t last_source) const {
    return Between(layout_.received_begin + e * ranks_ + first_source,
                   layout_.received_begin + e * ranks_ + last_source);
  }

  // All rows received.
  __aicore__ inline Rows Received(uint32_t local_experts) const {
    return Grouped(0, 0, local_experts * ranks_);
  }

  // Rows for global expert x in this rank's send order.
  __aicore__ inline Rows Sent(uint32_t x) const {
    return Between(RouteLayout::kSentBegin + x, RouteLayout::kSentBegin + x + 1);
  }

  // The same rows in the receive buffer of the rank that owns x.
  __aicore__ inline Rows Dest(uint32_t x) const {
    return {ok_ ? Word(layout_.dest_begin + x) : 0, Sent(x).count};
  }

  // Rows of Grouped(e, s, s + 1) in the send order of source s.
  __aicore__ inline Rows Return(uint32_t e, uint32_t s) const {
    return {ok_ ? Word(layout_.return_begin + e * ranks_ + s) : 0, Grouped(e, s, s + 1).count};
  }

 private:
  __aicore__ inline uint32_t Word(uint32_t index) const {
    return static_cast<uint32_t>(ReadCached(words_ + index));
  }
  __aicore__ inline Rows Between(uint32_t first, uint32_t last) const {
    if (!ok_) return {0, 0};
    const uint32_t begin = Word(first);
    return {begin, Word(last) - begin};
  }

  __gm__ int32_t* words_;
  RouteLayout layout_;
  uint32_t ranks_;
  bool ok_;
};

}  // namespace hpmoe

#endif  // HPMOE_ROUTE_H_
