#include "hpmoe_host/options.h"

#include <charconv>
#include <cstdlib>

#include "hpmoe_host/failure.h"

namespace hpmoe_host {
namespace {

int Number(const std::string& name, const std::string& text) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  Require(error == std::errc() && rest == end && value >= 0,
          name + ": expected a number, found '" + text + "'");
  return value;
}

}  // namespace

RunOptions ReadOptions(int argc, char** argv) {
  RunOptions options;
  const char* environment = std::getenv("RANK_ID");
  std::string rank = environment == nullptr ? "0" : environment;
  std::string device;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name.rfind("--", 0) != 0) {
      Require(options.directory.empty(), "expected one directory, found also '" + name + "'");
      options.directory = name;
      continue;
    }
    std::string* value = name == "--rank"      ? &rank
                         : name == "--device"  ? &device
                         : name == "--table"   ? &options.table
                         : name == "--address" ? &options.address
                                               : nullptr;
    Require(value != nullptr, "unknown option '" + name + "'");
    Require(i + 1 < argc, name + ": expected a value after it");
    *value = argv[++i];
  }
  Require(!options.directory.empty(), "expected the directory of the buffers");
  options.rank = Number("rank", rank);
  options.device = device.empty() ? options.rank : Number("device", device);
  return options;
}

}  // namespace hpmoe_host
