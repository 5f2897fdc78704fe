// Hardware constants of architecture dav-2201, for device headers and host side.
//
// No other header has a hardware number of its own. "Toolkit": documentation and headers of the
// open Ascend C toolkit.
#ifndef HPMOE_MACHINE_H_
#define HPMOE_MACHINE_H_

#include <cstdint>

namespace hpmoe {

// Numbers of the machine descriptions (hpmoe_ir/machines/*.toml), which have their sources. A test
// compares them: test/unit/device/test_machine_constants.py.
constexpr uint32_t kAivPerAic = 2;          // [cores] aiv_per_aic
constexpr uint32_t kL0aBytes = 64 * 1024;   // [memory] l0a
constexpr uint32_t kL0bBytes = 64 * 1024;   // [memory] l0b
constexpr uint32_t kL0cBytes = 128 * 1024;  // [memory] l0c
constexpr uint32_t kL1Bytes = 510 * 1024;   // [memory] l1 without l1_reserved, from address 0 on
constexpr uint32_t kUbBytes = 183 * 1024;   // [memory] ub without ub_reserved, from address 0 on
constexpr uint32_t kCounterLine = 64;       // [memory] counter_line: bytes of a cache line
constexpr uint32_t kPointBits = 24;         // [limits] queue_points: low bits of a queue slot
constexpr uint32_t kL2Line = 512;           // [l2] line, bytes

// Properties of the instructions of dav-2201.
// Toolkit, DataCopy: unit of a DMA, alignment of UB and L1 addresses, in bytes.
constexpr uint32_t kDataBlock = 32;
// Toolkit, DataCopyExtParams: largest blockCount, the bursts (rows) of one strided DMA.
constexpr uint32_t kMaxBursts = 4095;
// Toolkit, Nd2NzParams: largest srcDValue, the source pitch of one ND to NZ copy, in elements.
constexpr uint32_t kMaxPitch = 65535;
// Toolkit, LoadData and Mmad: rows and columns of a fractal of 16-bit elements.
constexpr uint32_t kFractal = 16;
// CATLASS, TileMmad: after a product of fewer fractals, the next one into the same place in L0C
// needs a barrier of the matrix unit.
constexpr uint32_t kMinPipelinedFractals = 10;
// Toolkit, FixpipeParamsV220: largest nSize, the columns that one Fixpipe stores.
constexpr uint32_t kMaxFixpipeCols = 4095;
// Toolkit, vector instructions: bytes of a repeat.
constexpr uint32_t kVectorBytes = 256;

}  // namespace hpmoe

#endif  // HPMOE_MACHINE_H_
