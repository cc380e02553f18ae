// SPDX-License-Identifier: Apache-2.0
#include "optimize/memory.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "base/memory.h"

namespace temper {

namespace {

int64_t bytes_of(const Graph& graph, ValueId id) {
  const TensorType& type = graph.type(id);
  return type.is_concrete() ? byte_count(type.dtype, type.dims()) : 0;
}

}  // namespace

int64_t constant_bytes(const Graph& graph) {
  int64_t bytes = 0;
  for (int32_t i = 0; i < graph.value_count(); ++i)
    if (const Tensor* constant = graph.constant({i})) bytes = checked_add(bytes, constant->bytes());
  return bytes;
}

void check_memory(const Graph& graph, int64_t constants, int64_t limit) {
  int64_t given = constants, ports = 0;
  for (ValueId id : graph.inputs())
    given = checked_add(given, bytes_of(graph, id)), ports = checked_add(ports, bytes_of(graph, id));
  for (const GraphOutput& output : graph.outputs()) ports = checked_add(ports, bytes_of(graph, output.value));
  const bool by_size = limit < 0;
  if (by_size)
    limit = std::min(given, std::numeric_limits<int64_t>::max() / (2 * kActivationsPerByte)) * kActivationsPerByte +
            kActivationsBeside;
  const auto check = [&](int64_t needed, const std::string& what) {
    if (needed > limit)
      fail(ErrorKind::bad_file, what, " ", readable_bytes(needed), "; the limit is ", readable_bytes(limit),
           by_size ? concat(" (", kActivationsPerByte, " times the model's constants and inputs, and ",
                            readable_bytes(kActivationsBeside), ")")
                   : "",
           ". --memory-limit SIZE sets another; smaller --shapes may do");
    check_free_memory(needed, what);
  };
  check(ports, "the model's inputs and outputs take");
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    int64_t needed = 0;
    for (ValueId id : node.inputs)
      if (id.valid() && !graph.constant(id)) needed = checked_add(needed, bytes_of(graph, id));
    for (ValueId id : node.outputs) needed = checked_add(needed, bytes_of(graph, id));
    if (needed > std::min(limit, int64_t(64) << 20))
      check(needed, concat("'", node.name, "' (", name_of(node.op), ") reads and writes"));
  }
}

}  // namespace temper
