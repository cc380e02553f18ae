// SPDX-License-Identifier: Apache-2.0
// Parses a model such that its nodes' messages lie in parts, each of which can be let go of once it was imported: the
// messages of a graph of many small nodes take 15 times the bytes of the file, as much as the graph that is made of
// them.
#pragma once
#include <memory>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Arena;
}
namespace onnx {
class ModelProto;
}

namespace temper {

struct NodePart {
  int end = 0;  // the nodes of the model's graph before this one, from the end of the part before on
  std::shared_ptr<google::protobuf::Arena> messages;  // theirs, or of some of them; null: they were let go of
};

// The model, whose nodes live as long as their parts; null where protobuf cannot read it, or where messages are nested
// deeper than `depth`. Nodes behind the last part live as long as the model.
std::shared_ptr<onnx::ModelProto> parse_in_parts(std::string_view bytes, int depth, std::vector<NodePart>& parts);

}  // namespace temper
