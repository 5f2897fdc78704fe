// BuildRoute: from the counts of all ranks to the row ranges of this rank (layout: route.h).
#ifndef HPMOE_BUILD_ROUTE_H_
#define HPMOE_BUILD_ROUTE_H_

#include "hpmoe/count_tokens.h"
#include "hpmoe/detail/row_sum.h"
#include "hpmoe/detail/word_pairs.h"
#include "hpmoe/route.h"

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
    if (!PlaceAtOwners(capacity)) return;
    PlaceSent();
    PlaceReceived();
  }

  __aicore__ inline void Store(const Tile<int32_t>& route, const Tile<int32_t>& status) {
    Require(route.cols == layout_.words && status.cols <= RouteLayout::kLine);
    Handover<AscendC::HardEvent::V_MTE3>();
    Handover<AscendC::HardEvent::S_MTE3>();
    StoreList(route.data, route_, layout_.words);
    StoreList(status.data, route_, status.cols);
  }

 private:
  static constexpr uint32_t kWord = sizeof(int32_t);
  static constexpr uint32_t kRouteWords = 4 * (kMaxExperts + 2 * RouteLayout::kLine);
  static constexpr uint32_t kPieceWords = 4 * kMaxExperts;
  static constexpr uint32_t kMaxSources = 4094;  // rows of one DMA; even, as the pairs need
  static constexpr uint32_t kTotal = 0;          // UB addresses
  static constexpr uint32_t kBefore = kTotal + kMaxExperts * kWord;
  static constexpr uint32_t kRoute = kBefore + kMaxExperts * kWord;
  static constexpr uint32_t kPiece = kRoute + kRouteWords * kWord;
  static_assert(kPiece + kPieceWords * kWord <= kUbBytes, "UB");

  // total[x]: rows that all ranks send to x; before[x]: those of lower ranks than this one.
  __aicore__ inline void SumCounts() {
    const Tile<int32_t> sent = {counts_.data, ranks_, experts_, counts_.pitch, 0};
    SumRowsAround(before_, total_, piece_, sent, rank_);
  }

  // dest_begin from the sums. Where some rank would receive more rows than it has room for, only
  // the header is filled in, and false is returned.
  __aicore__ inline bool PlaceAtOwners(uint32_t capacity) {
    const AscendC::LocalTensor<int32_t> begins = route_[layout_.dest_begin];
    for (uint32_t p = 0; p < ranks_; ++p) {
      const uint32_t rows =
          static_cast<uint32_t>(ExclusiveSums(begins, total_, p * local_, local_));
      if (rows <= capacity) continue;
      Handover<AscendC::HardEvent::S_V>();
      AscendC::Duplicate(begins, int32_t{0}, static_cast<int32_t>(experts_));
      route_.SetValue(RouteLayout::kStatus, 1);
      route_.SetValue(RouteLayout::kOverRank, static_cast<int32_t>(p));
      route_.SetValue(RouteLayout::kOverRows, static_cast<int32_t>(rows));
      return false;
    }
    Handover<AscendC::HardEvent::S_V>();
    AscendC::Add(begins, begins, before_, static_cast<int32_t>(experts_));
    return true;
  }

  // sent_begin: what this rank has announced, and the end of its last expert.
  __aicore__ inline void PlaceSent() {
    __gm__ int32_t* own = counts_.data + static_cast<uint64_t>(rank_) * counts_.pitch;
    const AscendC::LocalTensor<int32_t> before = piece_[RowStride(experts_)];
    LoadList(piece_, own, experts_);
    LoadList(before, own + experts_, experts_);
    Handover<AscendC::HardEvent::MTE2_V>();
    Handover<AscendC::HardEvent::MTE2_S>();
    AscendC::Adds(route_[RouteLayout::kSentBegin], before, int32_t{0},
                  static_cast<int32_t>(experts_));
    const uint32_t last = experts_ - 1;
    Handover<AscendC::HardEvent::V_S>();
    route_.SetValue(RouteLayout::kSentBegin + experts_,
                    before.GetValue(last) + piece_.GetValue(last));
    Handover<AscendC::HardEvent::S_MTE2>();
  }

  // received_begin and return_begin from all ranks' counts for the own experts. Of each rank's row
  // whole data blocks are loaded, as far as it has them, so that one instruction loads many rows.
  __aicore__ inline void PlaceReceived() {
    const uint32_t cols = Min(RowStride(local_), experts_);
    const uint32_t column = Min(rank_ * local_, experts_ - cols);
    const uint32_t stride = RowStride(cols);
    const uint32_t sources = Min(kPieceWords / (2 * stride), kMaxSources);
    const AscendC::LocalTensor<int32_t> sent = piece_;
    const AscendC::LocalTensor<int32_t> before = piece_[sources * stride];
    for (uint32_t first = 0; first < ranks_; first += sources) {
      const Rows rows = {first, Min(sources, ranks_ - first)};
      LoadRows(sent, Slice(counts_.data, counts_.pitch, rows, column, cols));
      LoadRows(before, Slice(counts_.data + experts_, counts_.pitch, rows, column, cols));
      Handover<AscendC::HardEvent::MTE2_S>();
      for (uint32_t e = 0; e < local_; ++e) {
        const uint32_t at = rank_ * local_ - column + e;
        Transpose(layout_.received_begin + e * ranks_ + first, sent[at], stride, rows.count);
        Transpose(layout_.return_begin + e * ranks_ + first, before[at], stride, rows.count);
      }
      Handover<AscendC::HardEvent::S_MTE2>();
    }
    const AscendC::LocalTensor<int32_t> begins = route_[layout_.received_begin];
    const uint32_t parts = local_ * ranks_;
    begins.SetValue(parts, ExclusiveSums(begins, begins, 0, parts));
  }

  // route[first + i] = column[i * stride] for i < n.
  __aicore__ inline void Transpose(uint32_t first, const AscendC::LocalTensor<int32_t>& column,
                                   uint32_t stride, uint32_t n) {
    uint32_t i = 0;
    if ((first & 1) == 0) {
      for (; i + 1 < n; i += 2) {
        const int32_t low = column.GetValue(i * stride);
        SetPair(route_, (first + i) / 2, {low, column.GetValue((i + 1) * stride)});
      }
    }
    for (; i < n; ++i) route_.SetValue(first + i, column.GetValue(i * stride));
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
