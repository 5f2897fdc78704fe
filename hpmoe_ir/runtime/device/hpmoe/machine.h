// Hardware constants of architecture dav-2201, for device headers and host side.
//
// No other header has a hardware number of its own; the sizes of memories, in which machines of
// the architecture may differ, are in memories.h. "Toolkit": documentation and headers of the open
// Ascend C toolkit.
#ifndef HPMOE_MACHINE_H_
#define HPMOE_MACHINE_H_

#include <cstdint>

namespace hpmoe {

// Numbers that every machine of the architecture has in its description (hpmoe_ir/machines/*.toml,
// with sources). The compiler refuses a description that differs, and a test compares them:
// test/unit/device/test_machine_constants.py.
constexpr uint32_t kAivPerAic = 2;     // [cores] aiv_per_aic
constexpr uint32_t kCounterLine = 64;  // [memory] counter_line: bytes of a cache line
constexpr uint32_t kPointBits = 24;    // [limits] queue_points: low bits of a queue slot
constexpr uint32_t kL2Line = 512;      // [l2] line, bytes

// Properties of the instructions of dav-2201.
// Toolkit, DataCopy: unit of a DMA, alignment of UB and L1 addresses, in bytes.
constexpr uint32_t kDataBlock = 32;
// Toolkit, DataCopyExtParams: largest blockCount, the bursts (rows) of one strided DMA.
constexpr uint32_t kMaxBursts = 4095;
// Toolkit, Nd2NzParams: largest srcDValue, the source pitch of one ND to NZ copy, in elements, and
// largest nValue, its rows.
constexpr uint32_t kMaxPitch = 65535;
constexpr uint32_t kMaxNzRows = 16384;
// Toolkit, LoadData2DParams: largest repeatTimes, the fractals that one instruction moves to L0.
constexpr uint32_t kMaxRepeats = 255;
// Toolkit, Mmad: largest m, n and k.
constexpr uint32_t kMaxMmad = 4095;
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
