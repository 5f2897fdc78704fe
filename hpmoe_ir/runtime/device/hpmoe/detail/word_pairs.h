// Words of UB two at a time: the routing kernels are as fast as the scalar unit's accesses are few.
#ifndef HPMOE_DETAIL_WORD_PAIRS_H_
#define HPMOE_DETAIL_WORD_PAIRS_H_

#include "hpmoe/local.h"

namespace hpmoe {

// Words 2i and 2i + 1 of a tensor, in one access.
struct WordPair {
  int32_t low;
  int32_t high;
};

__aicore__ inline WordPair GetPair(const AscendC::LocalTensor<int32_t>& words, uint32_t i) {
  const uint64_t both = static_cast<uint64_t>(words.ReinterpretCast<int64_t>().GetValue(i));
  return {static_cast<int32_t>(both & 0xFFFFFFFF), static_cast<int32_t>(both >> 32)};
}

__aicore__ inline void SetPair(const AscendC::LocalTensor<int32_t>& words, uint32_t i,
                               const WordPair& pair) {
  const uint64_t both = static_cast<uint32_t>(pair.low) |
                        static_cast<uint64_t>(static_cast<uint32_t>(pair.high)) << 32;
  words.ReinterpretCast<int64_t>().SetValue(i, static_cast<int64_t>(both));
}

// Calls visit(i, word i) for the first n words, in order.
template <class Visit>
__aicore__ inline void VisitWords(const AscendC::LocalTensor<int32_t>& words, uint32_t n,
                                  const Visit& visit) {
  for (uint32_t i = 0; i + 1 < n; i += 2) {
    const WordPair pair = GetPair(words, i / 2);
    visit(i, pair.low);
    visit(i + 1, pair.high);
  }
  if ((n & 1) != 0) visit(n - 1, words.GetValue(n - 1));
}

// sums[first + i] = words[first] + .. + words[first + i - 1] for i < n; returns the sum of all n.
// Both may be the same tensor.
__aicore__ inline int32_t ExclusiveSums(const AscendC::LocalTensor<int32_t>& sums,
                                        const AscendC::LocalTensor<int32_t>& words, uint32_t first,
                                        uint32_t n) {
  int32_t sum = 0;
  const uint32_t end = first + n;
  uint32_t i = first;
  if ((i & 1) == 0) {
    for (; i + 1 < end; i += 2) {
      const WordPair pair = GetPair(words, i / 2);
      SetPair(sums, i / 2, {sum, sum + pair.low});
      sum += pair.low + pair.high;
    }
  }
  for (; i < end; ++i) {
    const int32_t word = words.GetValue(i);
    sums.SetValue(i, sum);
    sum += word;
  }
  return sum;
}

}  // namespace hpmoe

#endif  // HPMOE_DETAIL_WORD_PAIRS_H_
