#include "detectors/conflict.h"

namespace cpu_model {

std::string DescribeCall(const CallRecord& call) {
  return Format("%s at %s:%d (rank %d %s)", call.api, call.where.file, call.where.line,
                call.core->rank, call.core->Name().c_str());
}

std::string DescribeBytes(const Conflict& at) {
  const auto begin = static_cast<unsigned long long>(at.begin);
  const auto end = static_cast<unsigned long long>(at.end);
  if (at.allocation == nullptr)
    return Format("%s bytes %llu to %llu", SpaceName(at.space), begin, end);
  return Format("'%s' of rank %d, bytes %llu to %llu", at.allocation->name.c_str(),
                at.allocation->rank, begin, end);
}

void FailConflict(const char* kind, const std::string& message, const Conflict& at) {
  const std::string memory = Format(
      ", \"memory\": {\"allocation\": %s, \"rank\": %d, \"begin\": %llu, \"end\": %llu}",
      QuoteJson(at.allocation == nullptr ? SpaceName(at.space) : at.allocation->name).c_str(),
      at.allocation == nullptr ? at.now->core->rank : at.allocation->rank,
      static_cast<unsigned long long>(at.begin), static_cast<unsigned long long>(at.end));
  std::string party;
  if (at.before != nullptr) {
    const CallRecord& other = *at.before;
    party = Format(", \"other\": {\"rank\": %d, \"core\": %s, \"marker\": %lld, ", other.core->rank,
                   QuoteJson(other.core->Name()).c_str(), static_cast<long long>(other.marker)) +
            Format("\"location\": %s, \"api\": %s}", QuoteJson(Location(other.where)).c_str(),
                   QuoteJson(other.api).c_str());
  }
  FailAt(kind, message, at.now->where, at.now->core, memory + party);
}

}  // namespace cpu_model
