// SPDX-License-Identifier: Apache-2.0
// Binds graphs: printing, parsing, passes, and writing as ONNX.
#include "graph/graph.h"

#include <algorithm>

#include "bind.h"
#include "engine.h"
#include "guard.h"
#include "onnx/split.h"
#include "onnx/write.h"
#include "passes/pass.h"

namespace nb = nanobind;

namespace temper::python {

namespace {

std::vector<PortInfo> inputs_of(const Graph& graph) {
  std::vector<PortInfo> ports;
  for (ValueId id : graph.inputs()) ports.push_back({graph.value(id).name, graph.type(id)});
  return ports;
}

bool equal(const Graph& a, const Graph& b) {
  std::vector<Tensor> x, y;
  if (print(a, &x) != print(b, &y) || x.size() != y.size()) return false;
  for (size_t i = 0; i < x.size(); ++i)
    if (!x[i].same_bits(y[i])) return false;
  return true;
}

Graph parse(const std::string& text, nb::list blobs) {
  std::vector<Array> arrays;  // they keep the memory until the graph has its copies
  std::vector<Tensor> tensors;
  for (nb::handle blob : blobs) {
    const Array& array = arrays.emplace_back(array_of(blob, What{"blob", std::to_string(arrays.size())}));
    Tensor& copy = tensors.emplace_back(array.dtype, array.dims);
    std::copy_n(static_cast<const std::byte*>(array.data), copy.bytes(), copy.raw_mutable());
  }
  return parse_graph(text, tensors);
}

nb::dict run(const Graph& graph, nb::object inputs) {
  const std::vector<Array> arrays = arrays_of(inputs, inputs_of(graph));
  std::vector<Tensor> tensors;
  for (const Array& array : arrays) tensors.push_back(array.tensor());
  {
    const WithoutGil released;
    tensors = run_reference(graph, tensors);
  }
  nb::dict results;
  for (size_t i = 0; i < tensors.size(); ++i) results[graph.outputs()[i].name.c_str()] = array_from(tensors[i]);
  return results;
}

}  // namespace

void bind_graph(nb::module_& module) {
  nb::class_<Graph>(module, "Graph")
      .def_static("parse", parse)
      .def_static("from_onnx",
                  [](nb::object model) {
                    const ModelSource source = source_of(model);
                    const WithoutGil released;
                    return source.import().graph;
                  })
      .def("text",
           [](const Graph& self) {
             std::vector<Tensor> blobs;
             const std::string text = print(self, &blobs);
             nb::list arrays;
             for (const Tensor& blob : blobs) arrays.append(array_from(blob));
             return nb::make_tuple(nb::str(text.c_str(), text.size()), arrays);
           })
      .def("inputs", [](const Graph& self) { return ports_list(inputs_of(self)); })
      .def("outputs",
           [](const Graph& self) {
             std::vector<PortInfo> ports;
             for (const GraphOutput& output : self.outputs()) ports.push_back({output.name, self.type(output.value)});
             return ports_list(ports);
           })
      .def("node_count", &Graph::node_count)
      .def("optimised",
           [](const Graph& self, const std::vector<std::string>& disable) {
             PassOptions options;
             options.disabled.insert(disable.begin(), disable.end());
             const WithoutGil released;
             Graph graph = self;
             run_passes(graph, options);
             return graph;
           })
      .def("to_onnx",
           [](const Graph& self) {
             std::string bytes;
             {
               const WithoutGil released;
               bytes = onnx_bytes(self);
             }
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def("run", run)
      .def("equal", equal)
      .def("hash", [](const Graph& self) { return hash(self); });
  module.def("split", [](const std::string& model, const std::vector<std::string>& inputs, const std::string& first,
                         const std::string& rest, bool force, nb::dict options) {
    const ModelLimits limits = options_of(options).limits;
    const WithoutGil released;
    return split_onnx_file(model, inputs, {first, FileKind::our_onnx, force}, {rest, FileKind::our_onnx, force}, limits)
        .between;
  });
}

}  // namespace temper::python
