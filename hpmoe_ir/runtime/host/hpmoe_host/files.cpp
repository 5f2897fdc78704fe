#include "hpmoe_host/files.h"

#include <fstream>
#include <iterator>

#include "hpmoe_host/failure.h"

namespace hpmoe_host {

Bytes ReadFile(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  Require(stream.is_open(), path + ": can't be opened");
  Bytes data{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  Require(!stream.bad(), path + ": can't be read");
  return data;
}

void WriteFile(const std::string& path, const Bytes& data) {
  std::ofstream stream(path, std::ios::binary);
  stream.write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size()));
  stream.close();
  Require(!stream.fail(), path + ": can't be written");
}

Bytes ReadExactly(const std::string& path, size_t bytes) {
  Bytes data = ReadFile(path);
  Require(data.size() == bytes, path + ": expected " + std::to_string(bytes) + " bytes, found " +
                                    std::to_string(data.size()));
  return data;
}

uint32_t RowsOf(const Bytes& data, size_t row_bytes, const std::string& path) {
  Require(data.size() % row_bytes == 0, path + ": expected rows of " + std::to_string(row_bytes) +
                                            " bytes, found " + std::to_string(data.size()) +
                                            " bytes");
  return static_cast<uint32_t>(data.size() / row_bytes);
}

}  // namespace hpmoe_host
