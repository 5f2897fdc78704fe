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

// A tile: rows of one local expert, from all sources. One without rows has expert 0.
struct RouteTile {
  uint32_t expert;
  Rows rows;
};

// How the rows that a rank's experts receive are cut: each expert's rows at multiples of `rows`
// rows, or of the least multiple of that for which there are at most `count` tiles. Tiles are
// numbered expert after expert; there are at least as many as experts.
struct TileCut {
  uint32_t count;
  uint32_t rows;
  uint32_t experts;  // of a rank
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

  // Tile t, without rows if there are fewer tiles.
  __aicore__ inline RouteTile Tile(uint32_t t, const TileCut& cut) const {
    const uint32_t height = TileHeight(cut);
    for (uint32_t e = 0; e < cut.experts; ++e) {
      const Rows expert = Grouped(e, 0, ranks_);
      const uint32_t tiles = CeilDiv(expert.count, height);
      if (t < tiles) {
        const uint32_t begin = t * height;
        return {e, {expert.begin + begin, Min(height, expert.count - begin)}};
      }
      t -= tiles;
    }
    return {0, {0, 0}};
  }

  // The parts that have rows of a tile, numbered by (local expert, source).
  __aicore__ inline Rows Parts(const RouteTile& tile) const {
    if (tile.rows.count == 0) return {0, 0};
    const uint32_t end = tile.rows.begin + tile.rows.count;
    uint32_t first = tile.expert * ranks_;
    while (Word(layout_.received_begin + first + 1) <= tile.rows.begin) ++first;
    uint32_t last = first + 1;
    while (Word(layout_.received_begin + last) < end) ++last;
    return {first, last - first};
  }

  // The tiles that have rows of local expert e from the sources first_source .. last_source - 1.
  __aicore__ inline Rows Tiles(uint32_t e, uint32_t first_source, uint32_t last_source,
                               const TileCut& cut) const {
    const Rows rows = Grouped(e, first_source, last_source);
    if (rows.count == 0) return {0, 0};
    const uint32_t height = TileHeight(cut);
    uint32_t before = 0;
    for (uint32_t i = 0; i < e; ++i) before += CeilDiv(Grouped(i, 0, ranks_).count, height);
    const uint32_t begin = rows.begin - Grouped(e, 0, ranks_).begin;
    const uint32_t first = begin / height;
    return {before + first, CeilDiv(begin + rows.count, height) - first};
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
  // Rows of a tile that is full.
  __aicore__ inline uint32_t TileHeight(const TileCut& cut) const {
    for (uint32_t height = cut.rows;; height += cut.rows) {
      uint32_t tiles = 0;
      for (uint32_t e = 0; e < cut.experts; ++e) {
        tiles += CeilDiv(Grouped(e, 0, ranks_).count, height);
      }
      if (tiles <= cut.count) return height;
    }
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
