"""A layer's sizes as a module in the `moe` dialect."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp, StringAttr, bf16, f16, f32, f64, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute

from hpmoe_ir.dialects.moe import (
    CombineOp,
    DispatchOp,
    GroupedMatmulOp,
    RouteOp,
    RouteType,
    SwiGLUOp,
)
from hpmoe_ir.dialects.moe.signature import role_attributes
from hpmoe_ir.dialects.role import Role, RoleKind
from hpmoe_ir.dtypes import Dtype
from hpmoe_ir.layer.config import LayerConfig

ELEMENTS: dict[Dtype, Attribute] = {"bf16": bf16, "f16": f16, "f32": f32, "f64": f64}

FUNCTION = "moe_layer"
ARGUMENTS = {
    "x": RoleKind.TOKENS,
    "ids": RoleKind.EXPERT_IDS,
    "gate": RoleKind.GATE_WEIGHTS,
    "w13": RoleKind.UP_WEIGHTS,
    "w2": RoleKind.DOWN_WEIGHTS,
}
"""The arguments of `layer_module`: their names, for readers, and their roles."""


def layer_module(config: LayerConfig) -> ModuleOp:
    """The forward direction of a layer, one rank's view.

    ```
    func.func @moe_layer(%x, %ids, %gate, %w13, %w2) -> out {
      %route = moe.route %ids
      %recv = moe.dispatch %x by %route
      %h = moe.grouped_matmul %recv, %w13 by %route
      %a = moe.swiglu %h
      %y = moe.grouped_matmul %a, %w2 by %route
      %out = moe.combine %y, %gate by %route
      func.return %out
    }
    ```

    Arguments and result have their roles, as `{moe.role = #moe.role<tokens>}`. The module's
    attributes `moe.layer` and `moe.source` say which layer it is.
    """
    element = ELEMENTS[config.dtype]
    route = RouteType(
        config.tokens, config.top_k, config.experts, config.ranks, config.receive_rows
    )
    rows, weights = route.token_rows, route.placement
    x_type = rows.tensor(config.hidden, element)
    function = FuncOp(
        FUNCTION,
        (
            (
                x_type,
                rows.tensor(config.top_k, i32),
                rows.tensor(config.top_k, f64 if config.dtype == "f64" else f32),
                weights.tensor((config.hidden, 2 * config.width), element),
                weights.tensor((config.width, config.hidden), element),
            ),
            (x_type,),
        ),
        arg_attrs=role_attributes(Role(kind) for kind in ARGUMENTS.values()),
        res_attrs=role_attributes([Role(RoleKind.OUTPUT)]),
    )
    for arg, name in zip(function.args, ARGUMENTS, strict=True):
        arg.name_hint = name
    x, ids, gate, w13, w2 = function.args
    routed = RouteOp(ids, route)
    received = DispatchOp(x, routed)
    h = GroupedMatmulOp(received, w13, routed)
    a = SwiGLUOp(h)
    y = GroupedMatmulOp(a, w2, routed)
    out = CombineOp(y, gate, routed)
    names = {"route": routed, "recv": received, "h": h, "a": a, "y": y, "out": out}
    for name, op in names.items():
        op.results[0].name_hint = name
    function.body.block.add_ops([*names.values(), ReturnOp(out)])
    attributes: dict[str, Attribute] = {"moe.layer": StringAttr(config.name)}
    if config.source:
        attributes["moe.source"] = StringAttr(config.source)
    return ModuleOp([function], attributes)
