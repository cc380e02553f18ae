// SPDX-License-Identifier: Apache-2.0
#include "onnx/limits.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <onnx/onnx_pb.h>

#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "onnx/functions.h"
#include "onnx/read.h"

namespace temper {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int64_t kPointer = 8, kText = sizeof(std::string) + 16,
                  kUnknown = 40;  // 16: what an allocation costs beside its bytes

// A message's fields by number, as far as memory is concerned.
struct MessageType {
  struct Field {
    enum class Kind {
      unknown,
      message,
      text,
      number,
      single
    } kind = Kind::unknown;  // single: a number inside the message's own bytes
    const MessageType* inner = nullptr;
    int64_t packed = 1;  // of numbers: bytes in memory for each byte of the file, at most
  };
  int64_t bytes = 0;
  std::vector<Field> fields;
};

class MessageTypes {
 public:
  const MessageType& of(const Descriptor* type) {
    const auto [it, fresh] = shapes_.try_emplace(type);
    MessageType& shape = it->second;  // stays where it is while others are added
    if (!fresh) return shape;
    shape.bytes =
        int64_t(google::protobuf::MessageFactory::generated_factory()->GetPrototype(type)->SpaceUsedLong()) + 16;
    for (int i = 0; i < type->field_count(); ++i) {
      const FieldDescriptor& field = *type->field(i);
      if (size_t(field.number()) >= shape.fields.size()) shape.fields.resize(size_t(field.number()) + 1);
      const bool text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
      const bool message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
      const bool fixed = field.type() == FieldDescriptor::TYPE_FLOAT || field.type() == FieldDescriptor::TYPE_DOUBLE;
      using Kind = MessageType::Field::Kind;
      const Kind kind = message ? Kind::message : text ? Kind::text : field.is_repeated() ? Kind::number : Kind::single;
      const MessageType* inner = message ? &of(field.message_type()) : nullptr;
      shape.fields[size_t(field.number())] = {kind, inner, fixed ? 1 : 8};
    }
    return shape;
  }

 private:
  std::map<const Descriptor*, MessageType> shapes_;
};

struct MessageWalk {
  const unsigned char *at, *end;

  bool varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && at < end; shift += 7) {
      const unsigned char byte = *at++;
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) return true;
    }
    return false;
  }
  bool skip(uint64_t bytes) {
    if (bytes > uint64_t(end - at)) return false;
    at += bytes;
    return true;
  }
  // Adds what the fields up to `end` take. False where they are damaged, or hold messages deeper than `depth`.
  bool add(const MessageType& shape, int depth, int64_t& sum) {
    using Kind = MessageType::Field::Kind;
    if (depth < 0) return false;
    while (at < end) {
      uint64_t tag = 0, size = 0;
      if (!varint(tag)) return false;
      const uint64_t number = tag >> 3;
      if (number == 0) fail(ErrorKind::bad_file, "this is not an ONNX model (a field has the number 0)");
      const MessageType::Field field = number < shape.fields.size() ? shape.fields[number] : MessageType::Field();
      switch (tag & 7) {
        case 0:
          if (!varint(size)) return false;
          break;
        case 1:
          if (!skip(8)) return false;
          break;
        case 5:
          if (!skip(4)) return false;
          break;
        case 2: {
          if (!varint(size) || size > uint64_t(end - at)) return false;
          if (field.kind == Kind::message) {
            MessageWalk inner{at, at + size};
            sum += kPointer + field.inner->bytes;
            if (!inner.add(*field.inner, depth - 1, sum)) return false;
          } else if (field.kind == Kind::number) sum += int64_t(size) * field.packed;
          else sum += (field.kind == Kind::text ? kPointer + kText : kUnknown) + (size > 15 ? int64_t(size) : 0);
          at += size;
          continue;
        }
        default: return false;  // groups, which ONNX has not
      }
      if (field.kind != Kind::single) sum += field.kind == Kind::number ? 8 : kUnknown;
    }
    return true;
  }
};

int64_t add_up_to_most(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

class Expansion {
 public:
  Expansion(const onnx::ModelProto& model, int64_t most) : most_(most), functions_(functions_of(model)) {}

  template <class Nodes>
  ExpandedSize of(const Nodes& nodes, int64_t depth) {
    if (depth > most_) refuse_depth(most_);
    ExpandedSize size{nodes.size(), 0};
    const auto add = [&](const ExpandedSize& more) {
      size.nodes = add_up_to_most(size.nodes, more.nodes);
      size.bytes = add_up_to_most(size.bytes, more.bytes);
    };
    for (const auto& node : nodes) {
      for (const auto& attribute : node.attribute()) {
        if (attribute.has_g()) add(of(attribute.g().node(), depth + 1));
        for (const auto& graph : attribute.graphs()) add(of(graph.node(), depth + 1));
      }
      if (functions_.empty()) continue;
      if (const auto it = functions_.find(function_key(node)); it != functions_.end()) add(of(*it->second, depth + 1));
    }
    return size;
  }

 private:
  ExpandedSize of(const onnx::FunctionProto& function, int64_t depth) {
    if (const auto it = known_.find(&function); it != known_.end()) return it->second;
    ExpandedSize size = of(function.node(), depth);
    size.bytes = add_up_to_most(size.bytes, int64_t(function.ByteSizeLong()));
    return known_[&function] = size;
  }

  int64_t most_;
  Functions functions_;
  std::unordered_map<const onnx::FunctionProto*, ExpandedSize> known_;
};

}  // namespace

void check_limits(const ModelLimits& limits) {
  for (const auto& [what, flag, limit] : {std::tuple{"nodes", "--node-limit", limits.nodes},
                                          {"levels of functions and subgraphs", "--depth-limit", limits.depth},
                                          {"iterations of a loop", "--loop-limit", limits.iterations}})
    if (limit < 1) fail(ErrorKind::usage, flag, " is ", limit, "; it is the most ", what, ", 1 or more");
  if (limits.depth > kMostDepth)
    fail(ErrorKind::usage, "--depth-limit is ", limits.depth, "; the most that it may be is ", kMostDepth);
  if (!(limits.time.seconds() > 0))
    fail(ErrorKind::usage, "--build-limit is ", limits.time.seconds(), "; it is seconds, above 0");
}

void refuse_depth(int64_t most) {
  fail(ErrorKind::bad_file, "functions and subgraphs are nested deeper than ", most,
       " (recursion?); --depth-limit N sets another limit");
}

void refuse_nodes(std::string_view what, int64_t most) {
  fail(ErrorKind::bad_file, what, "; the limit is ", most, "; --node-limit N sets another");
}

int64_t message_memory(std::string_view model, int64_t depth) {
  static MessageTypes types;  // the same for each model
  static const MessageType& type = types.of(onnx::ModelProto::descriptor());
  const auto* bytes = reinterpret_cast<const unsigned char*>(model.data());
  int64_t sum = type.bytes;
  MessageWalk{bytes, bytes + model.size()}.add(type, message_depth(depth), sum);
  return sum;
}

ExpandedSize expanded_size(const onnx::ModelProto& model, int64_t depth) {
  ExpandedSize size = Expansion(model, depth).of(model.graph().node(), 0);
  size.bytes = add_up_to_most(size.bytes, int64_t(model.ByteSizeLong()));
  return size;
}

}  // namespace temper
