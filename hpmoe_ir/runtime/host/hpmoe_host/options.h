// Command line of a program that runs one launch on one rank.
#ifndef HPMOE_HOST_OPTIONS_H_
#define HPMOE_HOST_OPTIONS_H_

#include <string>

namespace hpmoe_host {

struct RunOptions {
  std::string directory;  // has a folder rank0, rank1, ... with the buffers of each rank
  std::string table = "table.bin";
  std::string address = "tcp://127.0.0.1:8998";
  int rank = 0;
  int device = 0;
};

// PROGRAM DIRECTORY [--rank N] [--device N] [--table FILE] [--address tcp://HOST:PORT]
// The default rank is the environment variable RANK_ID, or 0; the default device has the number of
// the rank. Throws Failure.
RunOptions ReadOptions(int argc, char** argv);

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_OPTIONS_H_
