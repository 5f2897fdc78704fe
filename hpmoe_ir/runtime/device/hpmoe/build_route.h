// BuildRoute: from the counts of all ranks to the row ranges of this rank (layout: route.h).
#ifndef HPMOE_BUILD_ROUTE_H_
#define HPMOE_BUILD_ROUTE_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/route.h"
#include "hpmoe/row_sum.h"

namespace hpmoe {

class RouteBuilder {
 public:
  __aicore__ inline RouteBuilder(const Tile<int32_t>& counts, uint32_t rank)
      : counts_(counts),
        ranks_(counts.rows),
        experts_(counts.cols / 2),
        local_(experts_ / ranks_),
        rank_(rank),
        layout_(experts_, ranks_),
        total_(Ub<int32_t>(kTotal, kMaxExperts)),
        before_(Ub<int32_t>(kBefore, kMaxExperts)),
        route_(Ub<int32_t>(kRoute, kRouteWords)),
        piece_(Ub<int32_t>(kPiece, kPieceWords)) {
    Require(experts_ <= kMaxExperts && experts_ % ranks_ == 0 && layout_.words <= kRouteWords);
  }

  __aicore__ inline void Build(uint32_t capacity) {
    AscendC::Duplicate(route_, int32_t{0}, static_cast<int32_t>(layout_.words));
    SumCounts();
    route_.SetValue(RouteLayout::kCapacity, static_cast<int32_t>(capacity));
    if (FindOverflow(capacity)) return;
    PlaceSent();
    PlaceReceived();
  }

  __aicore__ inline void Store(const Tile<int32_t>& route, const Tile<int32_t>& status) {
    Require(route.cols == layout_.words && status.cols <= RouteLayout::kLine);
    Handover<AscendC::HardEvent::S_MTE3>();
    StoreList(route.data, route_, layout_.words);
    StoreList(status.data, route_, status.cols);
  }

 private:
  static constexpr uint32_t kWord = sizeof(int32_t);
  static constexpr uint32_t kRouteWords = 4 * (kMaxExperts + 2 * RouteLayout::kLine);
  static constexpr uint32_t kPieceWords = 4 * kMaxExperts;
  static constexpr uint32_t kTotal = 0;  // UB addresses
  static constexpr uint32_t kBefore = kTotal + kMaxExperts * kWord;
  static constexpr uint32_t kRoute = kBefore + kMaxExperts * kWord;
  static constexpr uint32_t kPiece = kRoute + kRouteWords * kWord;
  static_assert(kPiece + kPieceWords * kWord <= kUbBytes, "UB");

  // total[x]: rows that all ranks send to x; before[x]: those of lower ranks than this one.
  __aicore__ inline void SumCounts() {
    const Tile<int32_t> sent = {counts_.data, ranks_, experts_, counts_.pitch, 0};
    SumRowsAround(before_, total_, piece_, sent, rank_);
  }

  // Fills in the header where some rank would receive more rows than it has room for.
  __aicore__ inline bool FindOverflow(uint32_t capacity) {
    for (uint32_t p = 0; p < ranks_; ++p) {
      uint32_t rows = 0;
      for (uint32_t e = 0; e < local_; ++e) {
        rows += static_cast<uint32_t>(total_.GetValue(p * local_ + e));
      }
      if (rows <= capacity) continue;
      route_.SetValue(RouteLayout::kStatus, 1);
      route_.SetValue(RouteLayout::kOverRank, static_cast<int32_t>(p));
      route_.SetValue(RouteLayout::kOverRows, static_cast<int32_t>(rows));
      return true;
    }
    return false;
  }

  // sent_begin from the own row of counts, dest_begin from the sums.
  __aicore__ inline void PlaceSent() {
    __gm__ int32_t* own = counts_.data + static_cast<uint64_t>(rank_) * counts_.pitch;
    LoadList(piece_, own, 2 * experts_);
    Handover<AscendC::HardEvent::MTE2_S>();
    int32_t end = 0;
    int32_t begin = 0;
    for (uint32_t x = 0; x < experts_; ++x) {
      if (x % local_ == 0) begin = 0;
      const int32_t first = piece_.GetValue(experts_ + x);
      end = first + piece_.GetValue(x);
      route_.SetValue(RouteLayout::kSentBegin + x, first);
      route_.SetValue(layout_.dest_begin + x, begin + before_.GetValue(x));
      begin += total_.GetValue(x);
    }
    route_.SetValue(RouteLayout::kSentBegin + experts_, end);
    Handover<AscendC::HardEvent::S_MTE2>();
  }

  // received_begin and return_begin from all ranks' counts for the own experts.
  __aicore__ inline void PlaceReceived() {
    const uint32_t stride = RoundUp(local_, kDataBlock / kWord);
    const uint32_t sources = kPieceWords / (2 * stride);  // that fit a piece
    for (uint32_t first = 0; first < ranks_; first += sources) {
      const uint32_t n = Min(sources, ranks_ - first);
      for (uint32_t i = 0; i < n; ++i) {
        __gm__ int32_t* row =
            counts_.data + static_cast<uint64_t>(first + i) * counts_.pitch + rank_ * local_;
        LoadList(piece_[2 * i * stride], row, local_);
        LoadList(piece_[(2 * i + 1) * stride], row + experts_, local_);
      }
      Handover<AscendC::HardEvent::MTE2_S>();
      for (uint32_t i = 0; i < n; ++i) {
        for (uint32_t e = 0; e < local_; ++e) {
          const uint32_t part = e * ranks_ + first + i;
          route_.SetValue(layout_.received_begin + part + 1, piece_.GetValue(2 * i * stride + e));
          route_.SetValue(layout_.return_begin + part, piece_.GetValue((2 * i + 1) * stride + e));
        }
      }
      Handover<AscendC::HardEvent::S_MTE2>();
    }
    int32_t begin = 0;
    for (uint32_t part = 1; part <= local_ * ranks_; ++part) {
      begin += route_.GetValue(layout_.received_begin + part);
      route_.SetValue(layout_.received_begin + part, begin);
    }
  }

  Tile<int32_t> counts_;
  uint32_t ranks_;
  uint32_t experts_;
  uint32_t local_;
  uint32_t rank_;
  RouteLayout layout_;
  AscendC::LocalTensor<int32_t> total_;
  AscendC::LocalTensor<int32_t> before_;
  AscendC::LocalTensor<int32_t> route_;
  AscendC::LocalTensor<int32_t> piece_;
};

// counts [R x 2E]: each rank's rows for each expert, then their exclusive prefix sum; route [1 x
// words]; status [1 x 16]: the route's header, for the host.
__aicore__ inline void BuildRoute(const Tile<int32_t>& counts, const Tile<int32_t>& route,
                                  const Tile<int32_t>& status, uint32_t rank, uint32_t capacity) {
  RouteBuilder builder(counts, rank);
  builder.Build(capacity);
  builder.Store(route, status);
  AscendC::PipeBarrier<PIPE_ALL>();
}

}  // namespace hpmoe

#endif  // HPMOE_BUILD_ROUTE_H_
