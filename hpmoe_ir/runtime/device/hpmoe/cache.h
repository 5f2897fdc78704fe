// Scalar accesses to global memory: the only ones, and the only use of cache maintenance.
//
// They go through the data cache of the core, which nothing keeps coherent. A line that is in the
// cache is read whatever memory holds by now, and what was written stays in it. So a core drops a
// line before it reads what others may have written since the line was loaded, and cleans a line
// that it has written for others. Lines may be loaded early, by a prefetch or a speculative read;
// that a core has not yet read a line is no reason to leave the drop out.
//
// To the compiler, GetValue and SetValue are plain loads and stores, while the intrinsics of cache
// maintenance and of barriers access only memory that no load or store can see. It may therefore
// move one over the other: a load above the drop of its line, a store below the clean.
// CompilerFence keeps them in their places.
#ifndef HPMOE_CACHE_H_
#define HPMOE_CACHE_H_

#include "hpmoe/local.h"

namespace hpmoe {

// Drops the line of `word`; what the core has written to the line goes to memory first.
__aicore__ inline void DropLine(__gm__ int32_t* word) {
  CompilerFence();
  AscendC::DataCacheCleanAndInvalid<int32_t, AscendC::CacheLine::SINGLE_CACHE_LINE,
                                    AscendC::DcciDst::CACHELINE_OUT>(Global(word, 1));
  CompilerFence();
}

// The same for all lines of `count` words from the start of a line on.
__aicore__ inline void DropLines(__gm__ int32_t* words, uint32_t count) {
  constexpr uint32_t line = kCounterLine / sizeof(int32_t);
  for (uint32_t i = 0; i < count; i += line) DropLine(words + i);
}

// The same for the whole cache. `memory`: any address of global memory.
__aicore__ inline void DropCache(GM_ADDR memory) {
  CompilerFence();
  AscendC::DataCacheCleanAndInvalid<uint8_t, AscendC::CacheLine::ENTIRE_DATA_CACHE,
                                    AscendC::DcciDst::CACHELINE_OUT>(Global(memory, kCounterLine));
  CompilerFence();
}

// Reads one word through the data cache: its value when the line was last loaded.
__aicore__ inline int32_t ReadCached(__gm__ int32_t* word) {
  CompilerFence();
  return Global(word, 1).GetValue(0);
}

// Reads one word as it is in memory.
__aicore__ inline int32_t ReadShared(__gm__ int32_t* word) {
  DropLine(word);
  const int32_t value = Global(word, 1).GetValue(0);
  CompilerFence();
  return value;
}

// Reads word `index` of memory that nothing writes during the launch. DropCache at the kernel's
// start comes after the host's writes, so no later load of the line can be too early.
__aicore__ inline uint32_t ReadConstant(__gm__ uint32_t* words, uint32_t index) {
  return Global(words, static_cast<uint64_t>(index) + 1).GetValue(index);
}

// Writes `count` words to the start of a line that no other core writes, and waits until they are
// in memory.
template <uint32_t count>
__aicore__ inline void StoreWords(__gm__ int32_t* line, const int32_t (&words)[count]) {
  AscendC::GlobalTensor<int32_t> tensor = Global(line, count);
  for (uint32_t i = 0; i < count; ++i) tensor.SetValue(i, words[i]);
  DropLine(line);
  AscendC::DataSyncBarrier<AscendC::MemDsbT::DDR>();
  CompilerFence();
}

}  // namespace hpmoe

#endif  // HPMOE_CACHE_H_
