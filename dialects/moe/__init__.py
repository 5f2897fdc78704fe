"""The graph level: the computation of one Mixture-of-Experts layer, over tensors.

The program is one rank's view of an SPMD program over R ranks. Each rank has its own tokens, at
most T and possibly none; each of the E experts lives on one rank, L = E / R on each, expert x on
rank floor(x / L). A token is sent to K distinct experts.

The encoding of a tensor type states the kind and order of its rows and their largest number:

```
tensor<?x64xbf16, #moe.tokens<64 rows>>           this rank's tokens, in their order
tensor<?x64xbf16, #moe.sent<128 rows>>            a row for each (token, expert), in send order
tensor<?x64xbf16, #moe.grouped<256 rows>>         the rows that the local experts receive
tensor<2x64x64xbf16, #moe.experts<4 over 2 ranks>>   weights of this rank's 2 of 4 experts
```

Send order: the (token, expert) pairs of a rank sorted by (expert, token). Receive order: sorted by
(local expert, source rank, token). The number of rows is `?` since it follows from the routing at
run time; memory is planned for the capacity in the type.

A whole layer, forward (types left out):

```
%route = moe.route %ids
%recv = moe.dispatch %x by %route
%h = moe.grouped_matmul %recv, %w13 by %route
%a = moe.swiglu %h
%y = moe.grouped_matmul %a, %w2 by %route
%out = moe.combine %y, %gate by %route
```

and its gradients, as `derive-backward` computes them:

```
%route = moe.route %ids
%dy = moe.dispatch_weighted %dout, %gate by %route
%dgate = moe.gate_gradient %back, %dout by %route
%da = moe.grouped_matmul %dy, %w2 by %route {transpose_rhs}
%dw2 = moe.grouped_matmul %a, %dy by %route {transpose_lhs}
%dh = moe.swiglu_grad %h, %da
%drecv = moe.grouped_matmul %dh, %w13 by %route {transpose_rhs}
%dw13 = moe.grouped_matmul %recv, %dh by %route {transpose_lhs}
%dcopies = moe.collect %drecv by %route
%dx = moe.sum_copies %dcopies by %route
```

The role of an argument or result is stated by the attribute `moe.role` or inferred from its uses,
never from its name. A backward function names its forward function by `moe.forward`; the roles of
its arguments refer to arguments and results of the forward function by number.

```
func.func @layer(%x: tensor<...> {moe.role = #moe.role<tokens>}, ...)
    -> (tensor<...> {moe.role = #moe.role<output>}) {
  ...
}
func.func @layer_backward(%dout: tensor<...> {moe.role = #moe.role<gradient of result 0>}, ...)
    -> (tensor<...> {moe.role = #moe.role<gradient of argument 0>}, ...)
    attributes {moe.forward = @layer} {
  ...
}
```

The operations are in the modules `routing`, `matmul`, `rowwise`, and `gradient` for those that only
backward functions use.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from hpmoe_ir.dialects.moe.checks import check_rows, check_type, route_type, tensor_type
from hpmoe_ir.dialects.moe.gradient import DispatchWeightedOp, GateGradientOp, SumCopiesOp
from hpmoe_ir.dialects.moe.matmul import GroupedMatmulOp
from hpmoe_ir.dialects.moe.routing import (
    CollectOp,
    CombineOp,
    DispatchOp,
    RouteOp,
    WeightedSumOp,
)
from hpmoe_ir.dialects.moe.rowwise import ROWWISE_OPS, AddOp, SwiGLUGradOp, SwiGLUOp
from hpmoe_ir.dialects.moe.signature import forward_of, function_roles, stated_roles
from hpmoe_ir.dialects.placement import (
    ExpertsAttr,
    GroupedAttr,
    RouteType,
    RowsAttr,
    SentAttr,
    TokensAttr,
)
from hpmoe_ir.dialects.role import Role, RoleAttr, RoleKind

__all__ = [
    "AddOp",
    "CollectOp",
    "CombineOp",
    "DispatchOp",
    "DispatchWeightedOp",
    "ExpertsAttr",
    "GateGradientOp",
    "GroupedAttr",
    "GroupedMatmulOp",
    "Moe",
    "Role",
    "RoleAttr",
    "RoleKind",
    "RouteOp",
    "RouteType",
    "RowsAttr",
    "SentAttr",
    "SumCopiesOp",
    "SwiGLUGradOp",
    "SwiGLUOp",
    "TokensAttr",
    "WeightedSumOp",
    "check_rows",
    "check_type",
    "forward_of",
    "function_roles",
    "route_type",
    "stated_roles",
    "tensor_type",
]

Moe = Dialect(
    "moe",
    [
        RouteOp,
        DispatchOp,
        DispatchWeightedOp,
        GroupedMatmulOp,
        CombineOp,
        CollectOp,
        WeightedSumOp,
        SumCopiesOp,
        GateGradientOp,
        *ROWWISE_OPS,
    ],
    [RouteType, TokensAttr, SentAttr, GroupedAttr, ExpertsAttr, RoleAttr],
)
