"""Server process that computes MoE layers with MindSpore on the CPU, driven over pipes.

`hpmoe_ir.run.oracle` starts it. MindSpore can terminate its process without an exception and takes
a second to import, so it runs in a separate process that serves many cases. This file imports
nothing from hpmoe_ir: it is run by its path, in an empty working directory, since MindSpore leaves
files behind.

Each line of standard input names a `.npz` file with `x`, `ids`, `gates`, `w13`, `w2`; the result is
written to the same name with the ending `.out.npz`, then a line `done` or `error: ...` is printed.
The result is `out`, or, where the file has `dout` too, the gradients `dx`, `dgates`, `dw13`, `dw2`
of the sum of out * dout.
"""

# pyright: basic
# MindSpore has no type information that strict checking could use.

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import Tensor, ops


def moe_layer(x: Tensor, ids: Tensor, gates: Tensor, w13: Tensor, w2: Tensor) -> Tensor:
    """Computes the layer: each expert on the rows of its tokens, then the weighted sum.

    x [t, H], ids int32 [t, K], gates [t, K], w13 [E, H, 2I], w2 [E, I, H]; returns [t, H]. All
    floats have one type, which is float64 in the files of `hpmoe_ir.run.oracle`.
    """
    top_k = ids.shape[1]
    flat = ids.reshape(-1)
    # `sort` is stable on the CPU for floats; ids are small enough to be exact.
    order = ops.sort(flat.astype(ms.float32))[1]
    token = order // top_k
    counts = np.bincount(flat.asnumpy(), minlength=w13.shape[0])
    rows, parts, first = ops.gather(x, token, 0), [], 0
    for expert, count in enumerate(counts.tolist()):
        if count == 0:
            continue
        hidden = ops.matmul(rows[first : first + count], w13[expert])
        gate, up = ops.split(hidden, w2.shape[1], 1)
        parts.append(ops.matmul(ops.silu(gate) * up, w2[expert]))
        first += count
    weights = ops.gather(gates.reshape(-1), order, 0)
    back = ops.concat(parts, 0) * weights.expand_dims(-1)
    return ops.tensor_scatter_add(ops.zeros(x.shape, x.dtype), token.reshape(-1, 1), back)


def run_case(path: Path) -> None:
    """Computes the case in `path` and writes its result beside it."""
    with np.load(path) as case:
        arrays: dict[str, np.ndarray[Any, Any]] = {key: case[key] for key in case.files}
    x, gates, w13, w2 = (Tensor(arrays[name]) for name in ("x", "gates", "w13", "w2"))
    ids = Tensor(arrays["ids"])
    if "dout" not in arrays:
        results: dict[str, Any] = {"out": moe_layer(x, ids, gates, w13, w2)}
    else:
        dout = Tensor(arrays["dout"])

        def loss(x: Tensor, gates: Tensor, w13: Tensor, w2: Tensor) -> Tensor:
            return (moe_layer(x, ids, gates, w13, w2) * dout).sum()

        value_and_grad: Any = ms.value_and_grad
        _, gradients = value_and_grad(loss, (0, 1, 2, 3))(x, gates, w13, w2)
        results = dict(zip(("dx", "dgates", "dw13", "dw2"), gradients, strict=True))
    np.savez(path.with_suffix(".out.npz"), **{k: v.asnumpy() for k, v in results.items()})


def main() -> None:
    """Serves cases until standard input ends."""
    ms.set_device("CPU")
    # Synchronous launches: otherwise an error is reported at a later, unrelated operator.
    ms.runtime.launch_blocking()
    print(f"ready {ms.__version__}", flush=True)
    for line in sys.stdin:
        try:
            run_case(Path(line.rstrip("\n")))
        except Exception as e:
            first = (str(e).strip().splitlines() or [type(e).__name__])[0]
            print(f"error: {first}", flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main()
