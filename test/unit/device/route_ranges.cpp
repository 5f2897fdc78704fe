// Reads every row range of a route, chunks of the experts, and tiles and what meets them, on AIV 0.
#include "ascend_a3.h"
#include "hpmoe/env.h"
#include "kernel_operator.h"
#include "shmem.h"

namespace {

class Reader {
 public:
  __aicore__ inline Reader() : words_(hpmoe::Ub<int32_t>(0, 8192)) {}

  __aicore__ inline void Add(const hpmoe::Rows& rows) {
    words_.SetValue(count_++, static_cast<int32_t>(rows.begin));
    words_.SetValue(count_++, static_cast<int32_t>(rows.count));
  }
  __aicore__ inline void Store(__gm__ int32_t* out) const {
    hpmoe::Handover<AscendC::HardEvent::S_MTE3>();
    hpmoe::StoreList(out, words_, count_);
    AscendC::PipeBarrier<PIPE_ALL>();
  }

 private:
  AscendC::LocalTensor<int32_t> words_;
  uint32_t count_ = 0;
};

}  // namespace

extern "C" __global__ __mix__(1, 2) __aicore__
    void route_ranges(GM_ADDR words, GM_ADDR out, uint32_t experts, uint32_t ranks, uint32_t chunks,
                      uint32_t align, uint32_t tiles, uint32_t tile_rows) {
  AscendC::InitSocState();
  if ASCEND_IS_AIV {
    if (AscendC::GetBlockIdx() != 0) return;
    const hpmoe::Route route(reinterpret_cast<__gm__ int32_t*>(words), experts, ranks);
    const uint32_t local = experts / ranks;
    Reader reader;
    reader.Add(route.Received(local));
    for (uint32_t x = 0; x < experts; ++x) {
      reader.Add(route.Sent(x));
      reader.Add(route.Dest(x));
    }
    for (uint32_t e = 0; e < local; ++e) {
      const hpmoe::Rows all = route.Grouped(e, 0, ranks);
      reader.Add(all);
      for (uint32_t c = 0; c < chunks; ++c) reader.Add(hpmoe::Chunk(all, c, chunks, align));
      for (uint32_t s = 0; s < ranks; ++s) reader.Add(route.Return(e, s));
    }
    const hpmoe::TileCut cut{tiles, tile_rows, local};
    for (uint32_t t = 0; t < tiles; ++t) {
      const hpmoe::RouteTile tile = route.Tile(t, cut);
      reader.Add(tile.rows);
      reader.Add({tile.expert, 0});
      reader.Add(route.Parts(tile));
    }
    for (uint32_t e = 0; e < local; ++e) {
      reader.Add(route.Tiles(e, 0, ranks, cut));
      for (uint32_t s = 0; s < ranks; ++s) reader.Add(route.Tiles(e, s, s + 1, cut));
    }
    reader.Store(reinterpret_cast<__gm__ int32_t*>(out));
  }
}
