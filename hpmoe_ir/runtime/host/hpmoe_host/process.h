// Initialisation of ACL and the symmetric memory, for programs without a framework that does it.
#ifndef HPMOE_HOST_PROCESS_H_
#define HPMOE_HOST_PROCESS_H_

#include <cstdint>
#include <string>

namespace hpmoe_host {

struct ProcessOptions {
  int rank = 0;
  int ranks = 1;
  int device = 0;
  std::string address;           // where rank 0 listens: "tcp://HOST:PORT"
  uint64_t symmetric_bytes = 0;  // symmetric memory of each rank
};

// Initialised from construction to Close. A process has at most one.
class Process {
 public:
  // Throws Failure after undoing the steps that succeeded.
  explicit Process(const ProcessOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  // Finalises all, even if a step fails. Throws the first Failure.
  void Close();

 private:
  void Start(const ProcessOptions& options);

  int device_;
  int steps_ = 0;  // steps of the initialisation that are done and not yet undone
};

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_PROCESS_H_
