// SPDX-License-Identifier: Apache-2.0
#include "onnx/parts.h"

#include <google/protobuf/arena.h>
#include <google/protobuf/io/coded_stream.h>
#include <onnx/onnx_pb.h>

#include <optional>

namespace temper {

namespace {

using google::protobuf::Arena;

// Fields of a message that follow one another. A message that is merged from its fields in their order is the message.
bool merge(google::protobuf::Message& message, std::string_view fields, int depth) {
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(fields.data()), int(fields.size()));
  stream.SetRecursionLimit(depth);
  return message.MergePartialFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

// A field at the beginning of `bytes`.
struct Field {
  uint64_t number = 0;
  size_t bytes = 0;                              // with its tag
  std::optional<std::string_view> message = {};  // its content where it may be a message
};

std::optional<uint64_t> varint(std::string_view bytes, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && at < bytes.size(); shift += 7) {
    const auto byte = uint8_t(bytes[at++]);
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

// Nothing where it is damaged, or a group, which ONNX has not: protobuf sees the rest of the message in one piece.
std::optional<Field> first_field(std::string_view bytes) {
  size_t at = 0;
  const auto tag = varint(bytes, at);
  if (!tag) return std::nullopt;
  Field field{*tag >> 3};
  std::optional<uint64_t> size;
  switch (*tag & 7) {
    case 0:
      if (!varint(bytes, at)) return std::nullopt;
      size = 0;
      break;
    case 1: size = 8; break;
    case 2: size = varint(bytes, at); break;
    case 5: size = 4; break;
    default: break;
  }
  if (!size || *size > bytes.size() - at) return std::nullopt;
  if ((*tag & 7) == 2) field.message = bytes.substr(at, size_t(*size));
  field.bytes = at + size_t(*size);
  return field;
}

// Calls others(fields) for fields that follow one another and taken(fields, content) for each that `takes` says.
template <class Takes, class Others, class Taken>
bool each_field(std::string_view bytes, const Takes& takes, const Others& others, const Taken& taken) {
  size_t begin = 0, at = 0;  // of the others, and of the next field
  while (at < bytes.size()) {
    const auto field = first_field(bytes.substr(at));
    if (!field) break;
    if (takes(*field)) {
      if (begin < at && !others(bytes.substr(begin, at - begin))) return false;
      if (!taken(bytes.substr(at, field->bytes), *field->message)) return false;
      begin = at + field->bytes;
    }
    at += field->bytes;
  }
  return begin == bytes.size() || others(bytes.substr(begin));
}

class PartReader {
 public:
  PartReader(onnx::GraphProto& graph, int depth, std::vector<NodePart>& parts)
      : graph_(graph), depth_(depth), parts_(parts) {}

  bool read(std::string_view bytes) {
    const auto is_node = [](const Field& field) {
      return field.number == onnx::GraphProto::kNodeFieldNumber && field.message;
    };
    const auto others = [&](std::string_view fields) { return flush() && merge(graph_, fields, depth_); };
    const auto node = [&](std::string_view field, std::string_view) {
      constexpr size_t kPart = size_t(1) << 18;
      if (nodes_.data() + nodes_.size() != field.data() && !flush()) return false;
      nodes_ = nodes_.empty() ? field : std::string_view(nodes_.data(), nodes_.size() + field.size());
      return nodes_.size() < kPart || flush();
    };
    return each_field(bytes, is_node, others, node) && flush();
  }

 private:
  onnx::GraphProto& graph_;
  int depth_;
  std::vector<NodePart>& parts_;
  std::string_view nodes_;  // that were not read yet

  bool flush() {
    if (nodes_.empty()) return true;
    const auto arena = std::make_shared<Arena>();
    auto& part = *Arena::CreateMessage<onnx::GraphProto>(arena.get());
    if (!merge(part, std::exchange(nodes_, {}), depth_)) return false;
    for (auto& node : *part.mutable_node()) graph_.mutable_node()->UnsafeArenaAddAllocated(&node);
    parts_.push_back({graph_.node_size(), arena});
    return true;
  }
};

}  // namespace

std::shared_ptr<onnx::ModelProto> parse_in_parts(std::string_view bytes, int depth, std::vector<NodePart>& parts) {
  const auto arena = std::make_shared<Arena>();
  std::shared_ptr<onnx::ModelProto> model(arena, Arena::CreateMessage<onnx::ModelProto>(arena.get()));
  const auto is_graph = [](const Field& field) {
    return field.number == onnx::ModelProto::kGraphFieldNumber && field.message;
  };
  const auto others = [&](std::string_view fields) { return merge(*model, fields, depth); };
  const auto graph = [&](std::string_view, std::string_view content) {
    return PartReader(*model->mutable_graph(), depth - 1, parts).read(content);
  };
  return each_field(bytes, is_graph, others, graph) ? model : nullptr;
}

}  // namespace temper
