// What a failed call says, and the checks of the calls that the host side makes itself.
#ifndef HPMOE_HOST_FAILURE_H_
#define HPMOE_HOST_FAILURE_H_

#include <stdexcept>
#include <string>

#include "acl/acl.h"

namespace hpmoe_host {

// A call that did not do its work.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A launch that every rank ended before anything was sent.
class OverCapacity : public Failure {
 public:
  using Failure::Failure;
};

// Throws where a call of the ACL runtime failed. `call` says what was tried.
inline void CheckAcl(aclError error, const std::string& call) {
  if (error == ACL_SUCCESS) return;
  const char* details = aclGetRecentErrMsg();
  std::string text = call + " failed with ACL error " + std::to_string(error);
  if (details != nullptr && details[0] != '\0') text += ": " + std::string(details);
  throw Failure(text);
}

// Throws where a call of the symmetric-memory library failed.
inline void CheckShmem(int error, const std::string& call) {
  if (error == 0) return;
  throw Failure(call + " failed with symmetric-memory error " + std::to_string(error));
}

// Throws where the caller gave what the layer can't take.
inline void Require(bool condition, const std::string& text) {
  if (!condition) throw Failure(text);
}

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_FAILURE_H_
