// The border between C++ with exceptions and a C interface with result codes.
#ifndef HPMOE_HOST_GUARD_H_
#define HPMOE_HOST_GUARD_H_

#include <exception>
#include <string>

#include "hpmoe_host/failure.h"

namespace hpmoe_host {

enum ResultCode : int { kOk = 0, kFailed = 1, kOverCapacity = 2 };

// What the last failed call of this thread said; empty where none has failed.
inline std::string& LastError() {
  thread_local std::string text;
  return text;
}

// Runs `body`; its exception becomes a result code and the text of LastError.
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
