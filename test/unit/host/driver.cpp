// Calls the C interface of @moe_layer, one call for each line of standard input, and prints each
// result between the records of the fakes.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include "fake.h"
#include "host.h"
#include "hpmoe_host/files.h"

namespace {

moe_layer_handle* handle = nullptr;
char stream = 0;
char buffers[6];

void Report(const std::string& call, int result) {
  std::printf("%s: %d%s%s\n", call.c_str(), result, result == 0 ? "" : ": ",
              result == 0 ? "" : moe_layer_error());
}

moe_layer_arguments Arguments(std::istream& words) {
  moe_layer_arguments arguments = {&buffers[0], &buffers[1], &buffers[2],
                                   &buffers[3], &buffers[4], &buffers[5]};
  const std::map<std::string, const void**> places = {
      {"x", &arguments.x},     {"ids", &arguments.ids}, {"gate", &arguments.gate},
      {"w13", &arguments.w13}, {"w2", &arguments.w2},
  };
  for (std::string name; words >> name;) {
    if (name == "out") arguments.out = nullptr;
    if (const auto found = places.find(name); found != places.end()) *found->second = nullptr;
  }
  return arguments;
}

// A word of the windows, at a byte offset.
void ShowWord(std::istream& words) {
  std::string block;
  size_t offset = 0;
  words >> block >> offset;
  const auto* bytes = static_cast<const uint8_t*>(fake::Named(block)) + offset;
  std::printf("%s+%zu: %02x%02x%02x%02x\n", block.c_str(), offset, bytes[3], bytes[2], bytes[1],
              bytes[0]);
}

void Run(const std::string& command, std::istream& words) {
  fake::Device& device = fake::TheDevice();
  std::string text;
  if (command == "create") {
    words >> text;
    const hpmoe_host::Bytes table = hpmoe_host::ReadFile(text);
    Report(command, moe_layer_create(table.data(), table.size(), &handle));
  } else if (command == "create-null") {
    Report("create", moe_layer_create(nullptr, 0, &handle));
    Report("create", moe_layer_create(nullptr, 0, nullptr));
  } else if (command == "launch") {
    uint32_t tokens = 0;
    words >> tokens;
    const moe_layer_arguments arguments = Arguments(words);
    Report(command, moe_layer_launch(handle, &arguments, tokens, &stream));
  } else if (command == "launch-null") {
    Report("launch", moe_layer_launch(handle, nullptr, 1, &stream));
  } else if (command == "status") {
    Report(command, moe_layer_status(handle, &stream));
  } else if (command == "destroy") {
    Report(command, moe_layer_destroy(handle));
    handle = nullptr;
  } else if (command == "fail") {
    int code = 0;
    int calls_before = 0;
    words >> text >> code >> calls_before;
    fake::Fail(text, code, calls_before);
  } else if (command == "cores") {
    words >> device.cube_cores >> device.vector_cores;
  } else if (command == "ranks") {
    words >> device.ranks;
  } else if (command == "shmem-status") {
    words >> device.shmem_status;
  } else if (command == "kernel-status") {
    for (int32_t& word : device.kernel_status) words >> word;
  } else if (command == "launch-error") {
    words >> device.launch_error;
  } else if (command == "last-error") {
    words >> device.last_error;
  } else if (command == "word") {
    ShowWord(words);
  } else if (command == "set-words") {
    size_t offset = 0;
    words >> text >> offset;
    for (uint32_t word = 0; words >> word; offset += sizeof(word)) {
      std::memcpy(static_cast<uint8_t*>(fake::Named(text)) + offset, &word, sizeof(word));
    }
  } else if (command == "symmetric-bytes") {
    std::printf("%llu\n", static_cast<unsigned long long>(moe_layer_symmetric_bytes()));
  } else {
    std::printf("unknown command %s\n", command.c_str());
  }
  std::fflush(stdout);
}

}  // namespace

int main() {
  fake::TheDevice().shmem_status = 2;
  const char* const names[] = {"x", "ids", "gate", "w13", "w2", "out"};
  for (int i = 0; i < 6; ++i) fake::Name(&buffers[i], names[i]);
  fake::Name(&stream, "stream");
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    if (words >> command) Run(command, words);
  }
  std::printf("live: %s\n", fake::Live().c_str());
}
