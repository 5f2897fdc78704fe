#include "clocks/l2.h"

#include <algorithm>
#include <cstdio>

namespace cpu_model {

constexpr uint64_t kAhead = 8;  // rows of look-ahead of the host's prefetch

L2::L2(uint64_t bytes, uint64_t line, uint64_t span)
    : line_(line), left_(std::max<uint64_t>(bytes / line, 1)), records_(1) {
  last_.reset(static_cast<uint32_t*>(std::calloc(span / line + 1, sizeof(uint32_t))));
  if (last_ == nullptr) {
    std::fprintf(stderr, "cpu model: no memory for the lines of L2\n");
    std::exit(2);
  }
}

uint64_t L2::FirstLine(const Rows& rows, uint64_t row) const {
  return (rows.begin + row * rows.pitch) / line_;
}

uint64_t L2::LastLine(const Rows& rows, uint64_t row) const {
  return (rows.begin + row * rows.pitch + rows.bytes - 1) / line_;
}

uint64_t L2::Touch(const Rows& rows, bool write) {
  uint64_t moved = 0;
  if (rows.count > 1 && rows.pitch < rows.bytes) {
    // Rows that overlap: the last row of a line determines its age.
    for (uint64_t row = 0; row < rows.count; ++row) {
      moved += Touch({rows.begin + row * rows.pitch, rows.bytes, rows.bytes, 1}, write);
    }
    return moved;
  }
  // Lines of a touch are evicted in order: where any is gone, the first one is.
  const uint32_t before = last_[FirstLine(rows, 0)] >> 1;
  if (before != 0 && IsWhole(records_[before], rows, write)) {
    Unlink(before);
    MakeNewest(before);
    return 0;
  }
  const uint32_t record = NewRecord(rows, write);
  for (uint64_t row = 0; row < rows.count; ++row) {
    const uint64_t last = LastLine(rows, row);
    for (uint64_t line = FirstLine(rows, row); line <= last;) {
      const uint64_t stop = std::min(last, line / kL2Lines * kL2Lines + kL2Lines - 1);
      moved += TouchPart(record, line, stop, write);
      line = stop + 1;
    }
  }
  records_[record].whole = records_[record].lines;
  return moved;
}

// Whether a touch of the rows would change nothing but the time of their last use.
bool L2::IsWhole(const TouchRecord& record, const Rows& rows, bool write) {
  return record.lines == record.whole && (record.written || !write) && record.rows == rows;
}

uint64_t L2::TouchPart(uint32_t record, uint64_t first, uint64_t last, bool write) {
  uint64_t fresh = 0;
  for (uint64_t line = first; line <= last;) {
    const uint32_t was = last_[line];
    const uint32_t now = record << 1 | (was & 1) | (write ? 1 : 0);
    const uint64_t begin = line;
    do {
      last_[line++] = now;
    } while (line <= last && last_[line] == was);
    const uint32_t lines = static_cast<uint32_t>(line - begin);
    const uint32_t before = was >> 1;
    if (before == record) continue;
    records_[record].lines += lines;
    if (before == 0) {
      fresh += lines;
    } else if ((records_[before].lines -= lines) == 0) {
      Forget(before);
    }
  }
  uint64_t moved = write ? 0 : fresh * line_;
  if (fresh > left_) moved += Evict(fresh - left_);
  left_ -= std::min(left_, fresh);
  return moved;
}

// Evicts the oldest lines. Returns the bytes that are written back.
uint64_t L2::Evict(uint64_t lines) {
  uint64_t moved = 0;
  while (lines > 0) {
    const uint32_t oldest = records_[0].newer;
    TouchRecord& record = records_[oldest];
    const uint64_t last = LastLine(record.rows, record.row);
    for (; record.next <= last && lines > 0 && record.lines > 0; ++record.next) {
      uint32_t& of = last_[record.next];
      if (of >> 1 != oldest) continue;
      if ((of & 1) != 0) moved += line_;
      of = 0;
      --record.lines;
      --lines;
    }
    if (record.lines == 0) {
      Forget(oldest);
    } else if (record.next > last) {
      ++record.row;
      record.next = FirstLine(record.rows, record.row);
      const uint64_t ahead = std::min(record.row + kAhead, record.rows.count - 1);
      __builtin_prefetch(&last_[FirstLine(record.rows, ahead)], 1);
    }
  }
  return moved;
}

uint32_t L2::NewRecord(const Rows& rows, bool write) {
  if (unused_.empty()) {
    unused_.push_back(static_cast<uint32_t>(records_.size()));
    records_.emplace_back();
  }
  const uint32_t record = unused_.back();
  unused_.pop_back();
  records_[record] = {rows, write, 0, 0, 0, 0, 0, FirstLine(rows, 0)};
  MakeNewest(record);
  return record;
}

void L2::Forget(uint32_t record) {
  Unlink(record);
  unused_.push_back(record);
}

void L2::Unlink(uint32_t record) {
  const uint32_t older = records_[record].older;
  const uint32_t newer = records_[record].newer;
  records_[older].newer = newer;
  records_[newer].older = older;
}

void L2::MakeNewest(uint32_t record) {
  const uint32_t older = records_[0].older;
  records_[record].older = older;
  records_[record].newer = 0;
  records_[older].newer = record;
  records_[0].older = record;
}

}  // namespace cpu_model
