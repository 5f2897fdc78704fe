// ACL and the symmetric memory of a process, for programs that have no framework to do it.
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
  // Throws Failure, with everything undone that was done.
  explicit Process(const ProcessOptions& options);
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  // Ends it, whatever fails. Throws the first Failure.
  void Close();

 private:
  void Start(const ProcessOptions& options);

  int device_;
  int steps_ = 0;  // of the initialisation, done and not yet undone
};

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_PROCESS_H_
