"""Prints the errors of two calls in graph mode, of which the first exceeds the capacity.

python over_capacity_in_graph_mode.py MACHINE.toml
"""

# pyright: basic
# pyright: reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor

from hpmoe_ir.mindspore import HpMoeExperts

ms.set_context(mode=ms.GRAPH_MODE)
module = HpMoeExperts(
    32, 16, 4, 2, 16, ranks=2, capacity=20, schedule="depth-first", machine=sys.argv[1]
)
x, gates = Tensor(np.ones((13, 32), np.float32)), Tensor(np.ones((13, 2), np.float32))
for ids in ([2, 3], [0, 3]):
    try:
        module(x, Tensor(np.tile(np.array(ids, np.int32), (13, 1))), gates).asnumpy()
    except Exception as error:
        lines = [line for line in str(error).splitlines() if line.strip(" -")]
        found = [line for line in lines if not line.startswith("- ")]
        print(f"{type(error).__name__}: {found[0]}")
