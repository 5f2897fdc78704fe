// Reading and writing of whole files; all functions throw Failure with the name of the file.
#ifndef HPMOE_HOST_FILES_H_
#define HPMOE_HOST_FILES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hpmoe_host {

using Bytes = std::vector<uint8_t>;

Bytes ReadFile(const std::string& path);
void WriteFile(const std::string& path, const Bytes& data);

// Reads a file that must have exactly `bytes` bytes.
Bytes ReadExactly(const std::string& path, size_t bytes);

// Returns the number of rows of `row_bytes` bytes in the data, which must be whole rows. `path` is
// for the failure.
uint32_t RowsOf(const Bytes& data, size_t row_bytes, const std::string& path);

}  // namespace hpmoe_host

#endif  // HPMOE_HOST_FILES_H_
