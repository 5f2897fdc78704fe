// One error in each case. The tests check kind, message and line of the report.
#include "kernel_operator.h"
#include "shmem.h"

using namespace AscendC;

template <typename T>
__aicore__ inline GlobalTensor<T> Global(GM_ADDR p) {
  GlobalTensor<T> g;
  g.SetGlobalBuffer((__gm__ T*)p);
  return g;
}

__aicore__ inline void VectorMistake(GM_ADDR in, GM_ADDR out, GM_ADDR windows, uint32_t which) {
  LocalTensor<float> ub(TPosition::VECIN, 0, 1024);
  LocalTensor<half> halves(TPosition::VECIN, 8192, 1024);
  GlobalTensor<float> src = Global<float>(in);
  GlobalTensor<float> dst = Global<float>(out);
  PrintTimeStamp(which);
  switch (which) {
    case 0:
      DataCopy(ub, src, 7);  // case 0
      break;
    case 1:
      DataCopy(ub, src[1000], 32);  // case 1
      break;
    case 2:
      DataCopy(dst[-8], ub, 8);  // case 2
      break;
    case 3:
      DataCopy(ub[4], src, 8);  // case 3
      break;
    case 4: {
      LocalTensor<float> over(TPosition::VECIN, 190 * 1024, 1024);  // case 4
      break;
    }
    case 5:
      DataCopy(ub[1016], src, 16);  // case 5
      break;
    case 6:
      SetFlag<HardEvent::MTE2_V>(6);  // case 6
      break;
    case 7:
      SetFlag<HardEvent::MTE2_V>(0);
      SetFlag<HardEvent::MTE2_V>(0);  // case 7
      break;
    case 8:
      WaitFlag<HardEvent::V_MTE3>(3);  // case 8
      break;
    case 9:
      SetFlag<HardEvent::V_MTE3>(3);  // case 9
      break;
    case 10:
      PipeBarrier<PIPE_FIX>();  // case 10
      break;
    case 11: {
      LocalTensor<float> l1(TPosition::A1, 0, 64);  // case 11
      break;
    }
    case 12:
      Trap();  // case 12
      break;
    case 13:
      DataCopy(src, ub, 8);  // case 13
      break;
    case 14:
      Add(ub[8], ub, ub, 64);  // case 14
      break;
    case 15:
      Global<int32_t>(out).GetValue(0);  // case 15
      break;
    case 16:
      ub.GetValue(5);  // case 16
      break;
    case 17:
      aclshmem_ptr(in, 0);  // case 17
      break;
    case 18:
      aclshmem_ptr(windows, 9);  // case 18
      break;
    case 19: {
      __gm__ uint8_t* peer = (__gm__ uint8_t*)aclshmem_ptr(windows, 1);
      aclshmem_ptr(peer, 1);  // case 19
      break;
    }
    case 20:
      CrossCoreSetFlag<2, PIPE_MTE3>(12);  // case 20
      break;
    case 21:
      for (int i = 0; i < 20; ++i) CrossCoreSetFlag<1, PIPE_MTE3>(1);  // case 21
      break;
    case 22:
      if (GetBlockIdx() == 0) CrossCoreSetFlag<2, PIPE_MTE3>(2);
      break;
    case 23:
      Global<int32_t>(out).SetValue(0, 1);  // case 23
      break;
    case 24: {
      GlobalTensor<int32_t> line = Global<int32_t>(windows);
      line.SetValue(0, 1);  // case 24
      aclshmemx_signal_op((__gm__ int32_t*)windows + 1, 5, ACLSHMEM_SIGNAL_ADD, aclshmem_my_pe());
      DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(line);
      break;
    }
    case 25:
      DataCopy(dst, ub, 8);
      PipeBarrier<PIPE_MTE3>();
      SetAtomicAdd<int32_t>();
      DataCopy(dst, ub, 8);  // case 25
      break;
    case 26:
      SetAtomicAdd<float>();  // case 26
      break;
    case 27:
      *(volatile int*)(nullptr) = 1;
      break;
    case 28:
      DataCopyPad(ub, src, {5000, 4, 0, 0, 0}, {false, 0, 0, 0});  // case 28
      break;
    case 29:
      while (true) ub.SetValue(0, 1.0f);
      break;
    case 30:
      while (true) {
      }
      break;
    case 31:
      DataCopy(Global<float>((GM_ADDR)ub.GetPhyAddr(16)), ub, 8);  // case 31
      break;
    case 32: {
      GlobalTensor<float> sized;
      sized.SetGlobalBuffer((__gm__ float*)in, 16);
      DataCopy(ub, sized[8], 16);  // case 32
      break;
    }
    case 33:
      Cast(halves[1], ub, RoundMode::CAST_RINT, 16);  // case 33
      break;
    case 34: {  // rank 0 tells rank 1 where its private memory is
      GlobalTensor<int64_t> mail = Global<int64_t>(windows);
      if (aclshmem_my_pe() == 0) {
        mail = Global<int64_t>((GM_ADDR)aclshmem_ptr(windows, 1));
        mail.SetValue(0, reinterpret_cast<int64_t>(out));
        DataCacheCleanAndInvalid<int64_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(
            mail);
        aclshmem_quiet();
        aclshmemx_signal_op((__gm__ int32_t*)windows + 16, 1, ACLSHMEM_SIGNAL_ADD, 1);
        break;
      }
      aclshmem_signal_wait_until((__gm__ int32_t*)windows + 16, ACLSHMEM_CMP_NE, 0);
      DataCopy(Global<float>((GM_ADDR)mail.GetValue(0)), ub, 8);  // case 34
      break;
    }
    case 35:
      SetFlag<HardEvent::MTE1_M>(0);  // case 35
      break;
    case 36:
      DataCopy(dst, ub, 9);  // case 36
      break;
  }
}

__aicore__ inline void MatrixMistake(GM_ADDR in, GM_ADDR out, uint32_t which) {
  LocalTensor<half> l1(TPosition::A1, 0, 4096);
  LocalTensor<half> a(TPosition::A2, 0, 4096);
  LocalTensor<half> b(TPosition::B2, 0, 4096);
  LocalTensor<float> c(TPosition::CO1, 0, 4096);
  LoadData2DParams load;
  load.repeatTimes = 1;
  MmadParams product(16, 16, 16, 0, false, true);
  FixpipeParamsV220 store(16, 16, 16, 16, false);
  PrintTimeStamp(which);
  switch (which) {
    case 50:
      Mmad(c, a, b, MmadParams(1, 16, 16, 0, false, true));  // case 50
      break;
    case 51:
      product.unitFlag = 3;
      Mmad(c, a, b, product);  // case 51
      break;
    case 52:
      Fixpipe<half, float, CFG_ROW_MAJOR>(Global<half>(out), c, store);  // case 52
      break;
    case 53:
      store.nSize = 24;
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global<float>(out), c, store);  // case 53
      break;
    case 54:
      LoadData(a[16], l1, load);  // case 54
      break;
    case 55:
      LoadData(a, b, load);  // case 55
      break;
    case 56:
      Mmad(c, b, a, product);  // case 56
      break;
    case 57:
      Mmad(c[16], a, b, product);  // case 57
      break;
    case 58:
      store.dstStride = 8;
      Fixpipe<float, float, CFG_ROW_MAJOR>(Global<float>(out), c, store);  // case 58
      break;
    case 59:
      DataCopy(l1, Global<half>(in), Nd2NzParams(1, 16, 16, 0, 0, 16, 1, 0));  // case 59
      break;
    case 60:
      DataCopyPad(l1, Global<half>(in), {1, 32, 0, 0, 0}, {false, 0, 0, 0});  // case 60
      break;
    case 61: {
      LocalTensor<float> ub(TPosition::VECIN, 0, 64);  // case 61
      break;
    }
    case 62:
      CrossCoreSetFlag<1, PIPE_FIX>(0);  // case 62
      break;
    case 63:
      SyncAll<true>();  // case 63
      break;
    case 64:
      load.addrMode = 1;
      LoadData(a, l1, load);  // case 64
      break;
    case 65:
      load.repeatTimes = 200;
      LoadData(a, l1, load);  // case 65
      break;
    case 66:
      SetFlag<HardEvent::MTE2_V>(0);  // case 66
      break;
  }
}

extern "C" __global__ __mix__(1, 2) __aicore__
    void faults(GM_ADDR in, GM_ADDR out, GM_ADDR windows, uint32_t which) {
  if (which == 99) PipeBarrier<PIPE_ALL>();
  if ASCEND_IS_AIV {
    LocalTensor<float> ub(TPosition::VECIN, 0, 8);
    if (which == 98) DataCopy(Global<float>(out), ub, 8);
  }
  InitSocState();
  if ASCEND_IS_AIC {
    if (which >= 50 && GetBlockIdx() == 0) MatrixMistake(in, out, which);
  } else if (which < 50 && (GetBlockIdx() == 0 || which == 21)) {
    VectorMistake(in, out, windows, which);
  }
}
