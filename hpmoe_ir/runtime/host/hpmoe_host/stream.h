// A stream of the current device, destroyed with its owner.
#ifndef HPMOE_HOST_STREAM_H_
#define HPMOE_HOST_STREAM_H_

#include "acl/acl.h"
#include "hpmoe_host/failure.h"

namespace hpmoe_host {

class Stream {
 public:
  Stream() { CheckAcl(aclrtCreateStream(&stream_), "aclrtCreateStream"); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { (void)aclrtDestroyStream(stream_); }

  aclrtStream get() const { return stream_; }

 private:
  aclrtStream stream_ = nullptr;
};

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_STREAM_H_
