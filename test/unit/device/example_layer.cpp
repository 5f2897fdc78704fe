// The shape of a generated kernel, small enough to read: every rank puts its rows into a window of
// every rank, multiplies what it has received and collects the products of its own tokens' chunks.
#include "ascend_a3.h"
#include "hpmoe/grouped_matmul.h"
#include "hpmoe/put_rows.h"
#include "hpmoe/worker.h"
#include "kernel_operator.h"
#include "shmem.h"

namespace {

// Numbers that differ from layer to layer, in the task table.
enum SizeIndex : uint32_t {
  kReceived,  // 64 bits
  kReceivedCopy = 2,
  kProduct,  // 64 bits
  kRows = 5,
  kHidden,
  kWidth,
  kChunks,
  kArrived,  // first event of a family
  kReady,
};

struct Arguments {
  GM_ADDR x;
  GM_ADDR w;
  GM_ADDR out;
};

// This launch's copy of the receive window; a rank that is one launch ahead writes to the other.
__aicore__ inline __gm__ bfloat16_t* Received(const hpmoe::Env& env) {
  return env.Window<bfloat16_t>(kReceived) +
         static_cast<uint64_t>(env.Launch() % 2) * env.Size(kReceivedCopy);
}

// @put (p) on aiv: copy_rows
__aicore__ inline void Put(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
  const uint32_t peer = env.Neighbour(point);
  const uint32_t rows = env.Size(kRows);
  const uint32_t hidden = env.Size(kHidden);
  const hpmoe::Tile<bfloat16_t> read0 = hpmoe::Slice(reinterpret_cast<__gm__ bfloat16_t*>(args.x),
                                                     hidden, hpmoe::Rows{0, rows}, 0, hidden);
  const hpmoe::Tile<bfloat16_t> write0 = hpmoe::Slice(
      env.Peer(Received(env), peer), hidden, hpmoe::Rows{env.Rank() * rows, rows}, 0, hidden);
  hpmoe::CopyRows<bfloat16_t>(read0, write0);
  env.SignalPeer(env.Size(kArrived) + env.Rank(), peer);
}

// @multiply (s) on aic: grouped_matmul
__aicore__ inline void Multiply(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
  env.Wait(env.Size(kArrived) + point);
  const uint32_t hidden = env.Size(kHidden);
  const uint32_t width = env.Size(kWidth);
  const hpmoe::Rows rows0 = {point * env.Size(kRows), env.Size(kRows)};
  const hpmoe::Tile<bfloat16_t> read0 = hpmoe::Slice(Received(env), hidden, rows0, 0, hidden);
  const hpmoe::Tile<bfloat16_t> read1 =
      hpmoe::Whole(reinterpret_cast<__gm__ bfloat16_t*>(args.w), hidden, width);
  const hpmoe::Tile<bfloat16_t> write0 =
      hpmoe::Slice(env.Workspace<bfloat16_t>(kProduct), width, rows0, 0, width);
  hpmoe::GroupedMatmul<bfloat16_t, 128, 256, 64, false>(read0, read1, write0);
  env.Signal(env.Size(kReady));
}

// @collect (s, b) on aiv: copy_rows
__aicore__ inline void Collect(const hpmoe::Env& env, const Arguments& args, uint32_t point) {
  const uint32_t b = point % env.Size(kChunks);
  point /= env.Size(kChunks);
  const uint32_t s = point;
  env.Wait(env.Size(kReady));
  const uint32_t width = env.Size(kWidth);
  const hpmoe::Rows tokens = env.TokenChunk(b, env.Size(kChunks));
  const hpmoe::Rows rows0 = {s * env.Size(kRows) + tokens.begin, tokens.count};
  if (rows0.count != 0) {
    const hpmoe::Tile<bfloat16_t> read0 =
        hpmoe::Slice(env.Workspace<bfloat16_t>(kProduct), width, rows0, 0, width);
    const hpmoe::Tile<bfloat16_t> write0 =
        hpmoe::Slice(reinterpret_cast<__gm__ bfloat16_t*>(args.out), width, rows0, 0, width);
    hpmoe::CopyRows<bfloat16_t>(read0, write0);
  }
}

struct AicTasks {
  const hpmoe::Env& env;
  const Arguments& args;

  __aicore__ inline void operator()(uint32_t family, uint32_t point) const {
    switch (family) {
      case 1:
        return Multiply(env, args, point);
      default:
        AscendC::Trap();
    }
  }
};

struct AivTasks {
  const hpmoe::Env& env;
  const Arguments& args;

  __aicore__ inline void operator()(uint32_t family, uint32_t point) const {
    switch (family) {
      case 0:
        return Put(env, args, point);
      case 2:
        return Collect(env, args, point);
      default:
        AscendC::Trap();
    }
  }
};

}  // namespace

extern "C" __global__ __mix__(1, 2) __aicore__
    void example_layer(GM_ADDR x, GM_ADDR w, GM_ADDR out, GM_ADDR table, GM_ADDR workspace,
                       GM_ADDR windows, uint32_t tokens, uint32_t launch) {
  const hpmoe::Env env(table, windows, workspace, tokens, launch);
  const Arguments args{x, w, out};
  if ASCEND_IS_AIC {
    hpmoe::RunAicQueue(env, AicTasks{env, args});
  }
  if ASCEND_IS_AIV {
    hpmoe::RunAivQueue(env, AivTasks{env, args});
  }
  AscendC::PipeBarrier<PIPE_ALL>();
}
