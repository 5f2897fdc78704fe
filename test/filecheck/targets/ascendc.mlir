// RUN: hpmoe-opt %s -t ascendc | filecheck %s

// A put that is chunked, counted from the rank and signalled on the peer; a matrix task that waits for unequal groups; work on tokens.
// Numbers that shapes decide are looked up, 0 and 1 are in the text.
queue.program @layer ranks 3 machine "ascend-a3" counters at 4096 {
  tile.buffer @x input : !tile.buffer<sent 14 rows, 48xbf16>
  tile.buffer @w input : !tile.buffer<2x48x40xbf16>
  tile.buffer @counts input : !tile.buffer<3x12xi32>
  tile.buffer @out output : !tile.buffer<tokens 7 rows, 40xbf16>
  tile.buffer @status output : !tile.buffer<16xi32>
  tile.buffer @route workspace at 0 : !moe.route<7 tokens, top 2, 6 experts over 3 ranks, 20 rows>
  tile.buffer @h workspace at 512 : !tile.buffer<grouped 20 rows, 40xbf16>
  tile.buffer @recv window copies 2 at 0 : !tile.buffer<grouped 20 rows, 48xbf16>
  tile.tasks @build_route () in () on aiv
    kernel "build_route"
    reads @counts[:, :]
    writes @route[:], @status[:]
    scalars (rank, 20)
  tile.tasks @put (p, e, c) in (3, 2, 2) on aiv
    kernel "copy_rows" using @route
    reads @x[sent((rank + p) mod 3 * 2 + e, chunk c of 2 by 16), :]
    writes @recv on (rank + p) mod 3 [grouped(e, rank of 3, chunk c of 2 by 16), :]
  tile.tasks @matmul (e, g, n) in (2, 2, 3) on aic
    kernel "grouped_matmul" {tile_m = 16 : i64, tile_n = 16 : i64, tile_k = 48 : i64, transpose_rhs = 0 : i64} using @route
    reads @recv[grouped(e, g of 2), :], @w[e, :, block(n by 16)]
    writes @h[grouped(e, g of 2), block(n by 16)]
  tile.tasks @copy (b) in (3) on aiv
    kernel "copy_rows"
    reads @h[:, :]
    writes @out[tokens(b of 3), :]
  queue.event @build_route_done () count 1 line 0
  queue.event @put_done (2, 2) count [2, 4, 2, 4] line 1
  queue.event @matmul_done () count 12 line 5
  queue.signal @build_route () to @build_route_done ()
  queue.signal @put (p, e, c) to @put_done (e, (rank * 2 + 1) floordiv 3) on (rank + p) mod 3
  queue.signal @matmul (e, g, n) to @matmul_done ()
  queue.wait @put (p, e, c) for @build_route_done ()
  queue.wait @matmul (e, g, n) for @put_done (e, g)
  queue.wait @copy (b) for @matmul_done ()
  queue.order aic {
    [@matmul[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]],
    [] times 23
  }
  queue.order aiv {
    [@build_route[0], @put[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]],
    [@copy[0, 1, 2]],
    [] times 46
  }
}

// CHECK:      // @build_route () on aiv: build_route
// CHECK-NEXT: __aicore__ inline void BuildRoute(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
// CHECK-NEXT:   // route: writes @route
// CHECK-NEXT:   const hpmoe::Tile<int32_t> write0 =
// CHECK-NEXT:       hpmoe::Whole(env.Workspace<int32_t>(kRoute), 1, env.Size(kRouteWords));
// CHECK-NEXT:   // status: writes @status
// CHECK-NEXT:   const hpmoe::Tile<int32_t> write1 = hpmoe::Slice(reinterpret_cast<__gm__ int32_t*>(args.status),
// CHECK-NEXT:                                                    0, hpmoe::Rows{0, 1}, 0, env.Size(kStatusCols));
// CHECK-NEXT:   // counts: reads @counts
// CHECK-NEXT:   const hpmoe::Tile<int32_t> read0 =
// CHECK-NEXT:       hpmoe::Slice(reinterpret_cast<__gm__ int32_t*>(args.counts), env.Size(kCountsPitch),
// CHECK-NEXT:                    hpmoe::Rows{0, env.Size(kCountsRows)}, 0, env.Size(kCountsCols));
// CHECK-NEXT:   hpmoe::BuildRoute(read0, write0, write1, env.Rank(), env.Size(kBuildRouteArgument1));
// CHECK-NEXT:   env.Signal(env.Size(kBuildRouteDone));
// CHECK-NEXT: }
// CHECK:      // @put (p, e, c) on aiv: copy_rows
// CHECK-NEXT: __aicore__ inline void Put(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
// CHECK-NEXT:   const uint32_t c = point % env.Size(kPutC);
// CHECK-NEXT:   point /= env.Size(kPutC);
// CHECK-NEXT:   const uint32_t e = point % env.Size(kPutE);
// CHECK-NEXT:   point /= env.Size(kPutE);
// CHECK-NEXT:   const uint32_t p = point;
// CHECK-NEXT:   const uint32_t peer = (env.Rank() + p) % env.Size(kPutConst1);
// CHECK-NEXT:   env.Wait(env.Size(kBuildRouteDone));
// CHECK-NEXT:   const hpmoe::Route route = env.LoadRoute(kRoute, env.Size(kRouteExperts));
// CHECK-NEXT:   const hpmoe::Rows rows0 = hpmoe::Chunk(route.Dest(peer * env.Size(kPutLocal) + e), c,
// CHECK-NEXT:                                          env.Size(kPutChunks), env.Size(kPutAlign));
// CHECK-NEXT:   // out: writes @recv
// CHECK-NEXT:   const hpmoe::Tile<bfloat16_t> write0 =
// CHECK-NEXT:       hpmoe::Slice(env.Peer(env.Window<bfloat16_t>(kRecv) +
// CHECK-NEXT:                                 static_cast<uint64_t>(env.Launch() % 2) * env.Size(kRecvCopy),
// CHECK-NEXT:                             peer),
// CHECK-NEXT:                    env.Size(kRecvPitch), rows0, 0, env.Size(kRecvCols));
// CHECK-NEXT:   if (rows0.count != 0) {
// CHECK-NEXT:     const hpmoe::Rows rows1 = hpmoe::Chunk(route.Sent((peer * env.Size(kPutConst2)) + e), c,
// CHECK-NEXT:                                            env.Size(kPutChunks), env.Size(kPutAlign));
// CHECK-NEXT:     // rows: reads @x
// CHECK-NEXT:     const hpmoe::Tile<bfloat16_t> read0 =
// CHECK-NEXT:         hpmoe::Slice(reinterpret_cast<__gm__ bfloat16_t*>(args.x), env.Size(kXPitch), rows1, 0,
// CHECK-NEXT:                      env.Size(kXCols));
// CHECK-NEXT:     hpmoe::CopyRows<bfloat16_t>(read0, write0);
// CHECK-NEXT:   }
// CHECK-NEXT:   env.SignalPeer(
// CHECK-NEXT:       env.Size(kPutDone) + e * env.Size(kPutDoneDim1) +
// CHECK-NEXT:           ((env.Rank() * env.Size(kPutConst3)) + env.Size(kPutConst4)) / env.Size(kPutConst5),
// CHECK-NEXT:       peer);
// CHECK-NEXT: }
// CHECK:      // @matmul (e, g, n) on aic: grouped_matmul
// CHECK-NEXT: __aicore__ inline void Matmul(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
// CHECK-NEXT:   const uint32_t n = point % env.Size(kMatmulN);
// CHECK-NEXT:   point /= env.Size(kMatmulN);
// CHECK-NEXT:   const uint32_t g = point % env.Size(kMatmulG);
// CHECK-NEXT:   point /= env.Size(kMatmulG);
// CHECK-NEXT:   const uint32_t e = point;
// CHECK-NEXT:   env.Wait(env.Size(kPutDone) + e * env.Size(kPutDoneDim1) + g);
// CHECK-NEXT:   const hpmoe::Route route = env.LoadRoute(kRoute, env.Size(kRouteExperts));
// CHECK-NEXT:   const hpmoe::Rows rows0 = route.Grouped(e, g * env.Ranks() / env.Size(kMatmulGroups),
// CHECK-NEXT:                                           (g + 1) * env.Ranks() / env.Size(kMatmulGroups));
// CHECK-NEXT:   // out: writes @h
// CHECK-NEXT:   const hpmoe::Tile<bfloat16_t> write0 = hpmoe::Slice(
// CHECK-NEXT:       env.Workspace<bfloat16_t>(kH), env.Size(kHPitch), rows0, n * env.Size(kMatmulHColsBlock),
// CHECK-NEXT:       hpmoe::Min(env.Size(kMatmulHColsBlock), env.Size(kHCols) - n * env.Size(kMatmulHColsBlock)));
// CHECK-NEXT:   if (rows0.count != 0) {
// CHECK-NEXT:     // rows: reads @recv
// CHECK-NEXT:     const hpmoe::Tile<bfloat16_t> read0 =
// CHECK-NEXT:         hpmoe::Slice(env.Window<bfloat16_t>(kRecv) +
// CHECK-NEXT:                          static_cast<uint64_t>(env.Launch() % 2) * env.Size(kRecvCopy),
// CHECK-NEXT:                      env.Size(kRecvPitch), rows0, 0, env.Size(kRecvCols));
// CHECK-NEXT:     // weights: reads @w
// CHECK-NEXT:     const hpmoe::Tile<bfloat16_t> read1 = hpmoe::Slice(
// CHECK-NEXT:         reinterpret_cast<__gm__ bfloat16_t*>(args.w) + static_cast<uint64_t>(e) * env.Size(kWStep2),
// CHECK-NEXT:         env.Size(kWPitch), hpmoe::Rows{0, env.Size(kWRows)}, n * env.Size(kMatmulWColsBlock),
// CHECK-NEXT:         hpmoe::Min(env.Size(kMatmulWColsBlock),
// CHECK-NEXT:                    env.Size(kWCols) - n * env.Size(kMatmulWColsBlock)));
// CHECK-NEXT:     hpmoe::GroupedMatmul<bfloat16_t, 16, 16, 48, 0>(read0, read1, write0);
// CHECK-NEXT:   }
// CHECK-NEXT:   env.Signal(env.Size(kMatmulDone));
// CHECK-NEXT: }
// CHECK:      // @copy (b) on aiv: copy_rows
// CHECK-NEXT: __aicore__ inline void Copy(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
// CHECK-NEXT:   const uint32_t b = point;
// CHECK-NEXT:   env.Wait(env.Size(kMatmulDone));
// CHECK-NEXT:   const hpmoe::Rows rows0 = env.TokenChunk(b, env.Size(kCopyTokenChunks));
// CHECK-NEXT:   // out: writes @out
// CHECK-NEXT:   const hpmoe::Tile<bfloat16_t> write0 =
// CHECK-NEXT:       hpmoe::Slice(reinterpret_cast<__gm__ bfloat16_t*>(args.out), env.Size(kOutPitch), rows0, 0,
// CHECK-NEXT:                    env.Size(kOutCols));
// CHECK-NEXT:   if (rows0.count != 0) {
// CHECK-NEXT:     // rows: reads @h
// CHECK-NEXT:     const hpmoe::Tile<bfloat16_t> read0 =
// CHECK-NEXT:         hpmoe::Slice(env.Workspace<bfloat16_t>(kH), env.Size(kHPitch),
// CHECK-NEXT:                      hpmoe::Rows{0, env.Size(kHRows)}, 0, env.Size(kHCols));
// CHECK-NEXT:     hpmoe::CopyRows<bfloat16_t>(read0, write0);
// CHECK-NEXT:   }
// CHECK-NEXT: }
// CHECK:      struct AicTasks {
// CHECK-NEXT:   const hpmoe::Env& env;
// CHECK-NEXT:   const Arguments& args;
// CHECK:        __aicore__ inline void operator()(uint32_t family, uint32_t point) const {
// CHECK-NEXT:     switch (family) {
// CHECK-NEXT:       case 2:
// CHECK-NEXT:         return Matmul(env, args, point);
// CHECK-NEXT:       default:
// CHECK-NEXT:         AscendC::Trap();
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: };
// CHECK:      struct AivTasks {
// CHECK-NEXT:   const hpmoe::Env& env;
// CHECK-NEXT:   const Arguments& args;
// CHECK:        __aicore__ inline void operator()(uint32_t family, uint32_t point) const {
// CHECK-NEXT:     switch (family) {
// CHECK-NEXT:       case 0:
// CHECK-NEXT:         return BuildRoute(env, args, point);
// CHECK-NEXT:       case 1:
// CHECK-NEXT:         return Put(env, args, point);
// CHECK-NEXT:       case 3:
// CHECK-NEXT:         return Copy(env, args, point);
// CHECK-NEXT:       default:
// CHECK-NEXT:         AscendC::Trap();
// CHECK-NEXT:     }
// CHECK-NEXT:   }
// CHECK-NEXT: };
// CHECK:      }  // namespace
// CHECK:      extern "C" __schedmode__(1) __global__ __mix__(1, 2) __aicore__ void layer(
// CHECK-NEXT:     GM_ADDR x, GM_ADDR w, GM_ADDR counts, GM_ADDR out, GM_ADDR status, GM_ADDR table,
// CHECK-NEXT:     GM_ADDR workspace, GM_ADDR windows, uint32_t tokens, uint32_t launch) {
// CHECK-NEXT:   const hpmoe::Env env(table, windows, workspace, tokens, launch);
// CHECK-NEXT:   const Arguments args{x, w, counts, out, status};
// CHECK-NEXT:   if ASCEND_IS_AIC {
// CHECK-NEXT:     hpmoe::RunAicQueue(env, AicTasks{env, args});
// CHECK-NEXT:   }
// CHECK-NEXT:   if ASCEND_IS_AIV {
// CHECK-NEXT:     hpmoe::RunAivQueue(env, AivTasks{env, args});
// CHECK-NEXT:   }
// CHECK-NEXT:   AscendC::PipeBarrier<PIPE_ALL>();
// CHECK-NEXT: }
