"""The code target `ascendc`: the device source, and a project for the CANN toolkit."""

from __future__ import annotations

from hpmoe_ir.lowering.ascendc.source import device_source
from hpmoe_ir.lowering.host.project import project_files
from hpmoe_ir.lowering.plan.program import ProgramPlan
from hpmoe_ir.lowering.targets import CodeTarget, KernelCode

HOST_DIR = "host"
"""Directory of the project."""


class AscendCCode(CodeTarget):
    """Prints Ascend C, and the host side in C++ with the ACL runtime."""

    name = "ascendc"
    source_file = "device.cpp"

    def source(self, plan: ProgramPlan) -> str:
        return device_source(plan)

    def project(self, plan: ProgramPlan, code: KernelCode) -> dict[str, str | bytes]:
        files = project_files(plan, code.source, code.table)
        return {f"{HOST_DIR}/{name}": content for name, content in files.items()}


ASCENDC = AscendCCode()
