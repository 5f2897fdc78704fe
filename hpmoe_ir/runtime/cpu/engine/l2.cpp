#include "l2.h"

#include <algorithm>

namespace cpu_model {

void L2::Unlink(uint32_t at) {
  const Slot& slot = slots_[at];
  if (at == oldest_) {
    oldest_ = slot.newer;
  } else {
    slots_[slot.older].newer = slot.newer;
  }
  if (at == newest_) {
    newest_ = slot.older;
  } else {
    slots_[slot.newer].older = slot.older;
  }
}

void L2::MakeNewest(uint32_t at) {
  slots_[at].older = newest_;
  slots_[newest_].newer = at;
  newest_ = at;
}

uint64_t L2::Touch(uint32_t block, uint64_t bytes, bool write) {
  bytes = std::min(bytes, kL2Block);
  uint64_t moved = 0;
  const auto found = where_.find(block);
  uint32_t at = 0;
  if (found != where_.end()) {
    at = found->second;
    if (at != newest_) {
      Unlink(at);
      MakeNewest(at);
    }
  } else {
    if (used_ < slots_.size()) {
      at = used_++;
      if (at == 0) {
        oldest_ = newest_ = 0;
      } else {
        MakeNewest(at);
      }
    } else {
      at = oldest_;
      moved += slots_[at].dirty;
      where_.erase(slots_[at].block);
      Unlink(at);
      MakeNewest(at);
    }
    slots_[at].block = block;
    slots_[at].held = 0;
    slots_[at].dirty = 0;
    where_[block] = at;
  }
  Slot& slot = slots_[at];
  const uint64_t fresh = std::min(bytes, kL2Block - slot.held);
  slot.held += static_cast<uint32_t>(fresh);
  if (write) {
    slot.dirty = static_cast<uint32_t>(std::min<uint64_t>(slot.dirty + bytes, slot.held));
  } else {
    moved += fresh;
  }
  return moved;
}

}  // namespace cpu_model
