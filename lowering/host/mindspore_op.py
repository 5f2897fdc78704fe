"""An operator of MindSpore's PyNative mode that calls the host side of a program.

`mindspore.ops.CustomOpBuilder` builds it, together with `host.cpp` and `hpmoe_host/*.cpp` of the
host project and an object of `kernel.asc`. The operator launches on the stream and the memory of
MindSpore and allocates the results. The module that is built has a class:

```
layer = module.Layer(table)      # the bytes of table.bin; all ranks together
out, saved = layer.launch(x, ids, gate, w13, w2)
mindspore.runtime.synchronize()  # MindSpore launches from threads of its own
layer.status()                   # waits; raises RuntimeError if the last launch has failed
layer.close()
```
"""

from __future__ import annotations

from hpmoe_ir.lowering.cpp_text import listed
from hpmoe_ir.lowering.host.plan import HostArgument, HostPlan

TYPES = {
    "bf16": "mindspore::kNumberTypeBFloat16",
    "f16": "mindspore::kNumberTypeFloat16",
    "f32": "mindspore::kNumberTypeFloat32",
    "i32": "mindspore::kNumberTypeInt32",
}
"""Element types in MindSpore."""


def mindspore_op_source(plan: HostPlan) -> str:
    """Returns the C++ source of the operator of a program."""
    name = plan.name
    inputs = [a for a in plan.arguments if not a.output]
    outputs = [a for a in plan.arguments if a.output]
    first = next((a for a in inputs if a.of_tokens), None)
    tokens = "0" if first is None else f"Rows({first.name})"
    checks = "\n".join(
        f'  Expect({a.name}, "{a.name}", {TYPES[a.element]}, {_shape(a)});' for a in inputs
    )
    results = "\n".join(
        f"  const ms::Tensor {a.name}({TYPES[a.element]}, {_shape(a)});" for a in outputs
    )
    fields = "\n".join(
        [f"    arguments.{a.name} = inputs()[{i}].GetDataPtr();" for i, a in enumerate(inputs)]
        + [f"    arguments.{a.name} = outputs()[{i}].GetDataPtr();" for i, a in enumerate(outputs)]
    )
    given, made = (", ".join(a.name for a in part) for part in (inputs, outputs))
    parameters = [f"const ms::Tensor& {a.name}" for a in inputs]
    run = listed(
        "std::vector<ms::Tensor> Run(", ["const std::shared_ptr<Layer>& layer", *parameters], ") {"
    )
    launch = listed(
        "pybind11::object Launch(", ["const std::shared_ptr<Layer>& layer", *parameters], ") {"
    )
    return f"""\
// The operator of @{name} for MindSpore's PyNative mode, see mindspore.ops.CustomOpBuilder.
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "host.h"
#include "ms_extension/api.h"

namespace {{

void Require(int result) {{
  if (result != {name}_ok) throw std::runtime_error({name}_error());
}}

// The layer on this rank, and the stream of its last launch.
class Layer {{
 public:
  explicit Layer(const std::string& table) {{
    Require({name}_create(table.data(), table.size(), &handle_));
  }}
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;
  ~Layer() {{ (void){name}_destroy(handle_); }}

  void Launch(const {name}_arguments& arguments, uint32_t tokens, void* stream) {{
    // MindSpore reports no other exceptions of its threads.
    if ({name}_launch(Open(), &arguments, tokens, stream) != {name}_ok) {{
      MS_EXCEPTION(mindspore::RuntimeError) << {name}_error();
    }}
    stream_ = stream;
  }}

  void Status() {{ Require({name}_status(Open(), stream_)); }}

  void Close() {{
    {name}_handle* handle = handle_;
    handle_ = nullptr;
    Require({name}_destroy(handle));
  }}

 private:
  {name}_handle* Open() const {{
    if (handle_ == nullptr) {{
      MS_EXCEPTION(mindspore::RuntimeError) << "{name}: expected a call before close()";
    }}
    return handle_;
  }}

  {name}_handle* handle_ = nullptr;
  void* stream_ = nullptr;
}};

class LaunchRunner : public ms::pynative::PyboostRunner {{
 public:
  LaunchRunner(std::shared_ptr<Layer> layer, uint32_t tokens)
      : PyboostRunner("{name}"), layer_(std::move(layer)), tokens_(tokens) {{}}

  void LaunchKernel() override {{
    {name}_arguments arguments = {{}};
{fields}
    layer_->Launch(arguments, tokens_, stream());
  }}

 private:
  std::shared_ptr<Layer> layer_;
  uint32_t tokens_;
}};

int64_t Rows(const ms::Tensor& tensor) {{ return tensor.shape().empty() ? 0 : tensor.shape()[0]; }}

std::string Text(const std::vector<int64_t>& shape) {{
  std::string text = "[";
  for (const int64_t extent : shape) {{
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  }}
  return text + "]";
}}

void Expect(const ms::Tensor& tensor, const std::string& name, mindspore::TypeId type,
            const std::vector<int64_t>& shape) {{
  const std::vector<int64_t> found(tensor.shape().begin(), tensor.shape().end());
  if (found != shape) {{
    MS_EXCEPTION(mindspore::ValueError) << "{name}: " << name << ": expected shape " << Text(shape)
                             << ", found " << Text(found);
  }}
  if (tensor.data_type() != type) {{
    MS_EXCEPTION(mindspore::TypeError)
        << "{name}: " << name << ": expected another element type, number " << type
        << " of MindSpore, found number " << tensor.data_type();
  }}
  if (!tensor.is_contiguous()) {{
    MS_EXCEPTION(mindspore::ValueError) << "{name}: " << name << ": expected contiguous memory";
  }}
}}

{run}
  const int64_t tokens = {tokens};
{checks}
{results}
  const auto runner = std::make_shared<LaunchRunner>(layer, static_cast<uint32_t>(tokens));
  runner->Run({{{given}}}, {{{made}}});
  return {{{made}}};
}}

{launch}
  const std::string name = "{name}";
  return ms::pynative::PyboostRunner::Call<{len(outputs)}>(name, Run, layer, {given});
}}

}}  // namespace

PYBIND11_MODULE(MS_EXTENSION_NAME, module) {{
  pybind11::class_<Layer, std::shared_ptr<Layer>>(module, "Layer")
      .def(pybind11::init([](const pybind11::bytes& table) {{
        return std::make_shared<Layer>(static_cast<std::string>(table));
      }}))
      .def("launch", &Launch)
      .def("status", &Layer::Status)
      .def("close", &Layer::Close);
}}
"""


def _shape(argument: HostArgument) -> str:
    dims = [str(n) for n in argument.dims]
    if argument.of_tokens:
        dims[0] = "tokens"
    return f"{{{', '.join(dims)}}}"
