// Exceptions of the host side, and checks of calls of the ACL runtime and the symmetric memory.
#ifndef HPMOE_HOST_FAILURE_H_
#define HPMOE_HOST_FAILURE_H_

#include <stdexcept>
#include <string>

#include "acl/acl.h"

namespace hpmoe_host {

// A call that failed; its text names the call and the reason.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A launch whose routing exceeds the capacity; every rank stopped before any row was sent.
class OverCapacity : public Failure {
 public:
  using Failure::Failure;
};

// Throws Failure if a call of the ACL runtime failed. `call`: its name and purpose.
inline void CheckAcl(aclError error, const std::string& call) {
  if (error == ACL_SUCCESS) return;
  const char* details = aclGetRecentErrMsg();
  std::string text = call + " failed with ACL error " + std::to_string(error);
  if (details != nullptr && details[0] != '\0') text += ": " + std::string(details);
  throw Failure(text);
}

// Throws Failure if a call of the symmetric-memory library failed.
inline void CheckShmem(int error, const std::string& call) {
  if (error == 0) return;
  throw Failure(call + " failed with symmetric-memory error " + std::to_string(error));
}

// Throws Failure with `text` unless `condition` holds.
inline void Require(bool condition, const std::string& text) {
  if (!condition) throw Failure(text);
}

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_FAILURE_H_
