// Conversion of exceptions into the result codes of the C interface.
#ifndef HPMOE_HOST_GUARD_H_
#define HPMOE_HOST_GUARD_H_

#include <exception>
#include <string>

#include "hpmoe_host/failure.h"

namespace hpmoe_host {

enum ResultCode : int { kOk = 0, kFailed = 1, kOverCapacity = 2 };

// Text of this thread's last failure; empty if there was none.
inline std::string& LastError() {
  thread_local std::string text;
  return text;
}

// Runs `body` and returns a result code; the text of its exception is stored in LastError.
template <typename Body>
int Guarded(Body body) noexcept {
  try {
    body();
    return kOk;
  } catch (const OverCapacity& error) {
    LastError() = error.what();
    return kOverCapacity;
  } catch (const std::exception& error) {
    LastError() = error.what();
    return kFailed;
  }
}

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_GUARD_H_
