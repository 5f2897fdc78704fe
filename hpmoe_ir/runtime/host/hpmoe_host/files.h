// Whole files of bytes.
#ifndef HPMOE_HOST_FILES_H_
#define HPMOE_HOST_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hpmoe_host {

using Bytes = std::vector<uint8_t>;

// Throw Failure naming the file.
Bytes ReadFile(const std::string& path);
void WriteFile(const std::string& path, const Bytes& data);

// The file's bytes, of which there must be `bytes`.
Bytes ReadExactly(const std::string& path, size_t bytes);

// Rows of `row_bytes` bytes that the data has; throws Failure where a part of a row is left.
uint32_t RowsOf(const Bytes& data, size_t row_bytes, const std::string& path);

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_FILES_H_
