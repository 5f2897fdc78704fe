"""Constants of the device headers that the compiler needs.

If a C++ constant has the same value, the docstring names it, and
`test/unit/kernels/test_kernel_constants.py` compares the two.
"""

from __future__ import annotations

FRACTAL = 16
"""Rows and columns of a fractal, the unit of the cube; `kFractal` of hpmoe/machine.h."""

CUBE_MACS = FRACTAL**3
"""Multiply-accumulates of 16-bit operands per cycle of a matrix core."""

ELEMENT_BYTES = 2
"""Bytes of an element of activation type: bf16 or f16."""

FLOAT_BYTES = 4
"""Bytes of a sum in L0C, and of an element that a vector kernel computes with."""

BUFFERS = 2
"""Double buffering in L0A, L0B and L1: one buffer is loaded while the other is used."""

UB_LISTS = 172032
"""Bytes of the longest set of lists in UB, that of `gate_gradient`; `kUbLists` of
hpmoe/memories.h."""

UB_REST = 512
"""Bytes beside the lists; `kUbRest` of hpmoe/memories.h."""

LIST_CUTS = (1, 2, 4, 8, 16)
"""Parts to which lists in UB are cut until they fit; values of `kListCut` of hpmoe/memories.h."""

MAX_EXPERTS = 4096
"""Most experts whose counts fit lists of full length; `kMaxExperts` of hpmoe/memories.h."""

MAX_COPIES = 1024
"""Most copies of a token, likewise; `kMaxCopies` of hpmoe/memories.h."""

MAX_CREDITS = 4096
"""Most events of a credit, likewise; `kMaxCredits` of hpmoe/memories.h."""

MAX_REPEATS = 255
"""Most fractals that one instruction moves to L0; `kMaxRepeats` of hpmoe/machine.h."""

MAX_NZ_ROWS = 16384
"""Most rows that one copy loads into L1; `kMaxNzRows` of hpmoe/machine.h."""

MAX_STEPS = 16
"""Most steps of the inner dimension in a chunk in L1; `kMaxSteps` of hpmoe/matmul_block.h."""

SECTION_CHUNKS = 4
"""Chunks of a section of rows in L1; `SectionL1::kChunks` of hpmoe/section_pipeline.h."""
