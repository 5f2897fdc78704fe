"""A MindSpore module of experts, whose forward and backward are generated kernels.

```python
from hpmoe_ir.mindspore import HpMoeExperts

experts = HpMoeExperts(hidden=7168, width=2048, experts=256, top_k=8, tokens=4096, ranks=4)
y = experts(x, topk_ids, topk_weights)  # [n, H]
```

docs/training.md describes its use. Importing this package needs MindSpore.
"""

from importlib.util import find_spec

if find_spec("mindspore") is None:
    raise ImportError("hpmoe_ir.mindspore needs MindSpore: pip install 'hpmoe-ir[mindspore]'")

from hpmoe_ir.mindspore.checkpoints import reshard_checkpoints
from hpmoe_ir.mindspore.experts import BACKENDS, HpMoeExperts
from hpmoe_ir.mindspore.replace import ReplacedExperts, replace_experts

__all__ = ["BACKENDS", "HpMoeExperts", "ReplacedExperts", "replace_experts", "reshard_checkpoints"]
