// SPDX-License-Identifier: Apache-2.0
#include "onnx/read.h"

#include <onnx/checker.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <future>
#include <optional>
#include <set>
#include <system_error>

#include "base/checked.h"
#include "base/file_copy.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/parse.h"
#include "onnx/external.h"
#include "onnx/limits.h"

namespace temper {

namespace {

constexpr int kMaxOpset = 27, kMinOpset = 1, kMaxIr = 13;

// Without holes. Some file systems do not count what they store; they are taken at their word where they know of no
// hole.
uint64_t bytes_on_disk(const OpenFile& file, const std::string& name) {
  struct stat status{};
  if (fstat(file.descriptor(), &status) != 0)
    fail(ErrorKind::bad_file, "'", name, "' cannot be read: ", std::string_view(std::strerror(errno)));
  if (status.st_blocks > 0) return uint64_t(status.st_blocks) * 512;
  return lseek(file.descriptor(), 0, SEEK_DATA) >= 0 ? uint64_t(status.st_size) : 0;
}

// The tensors that lie in other files: where, first, and then what of each file they need.
class ExternalData {
 public:
  ExternalData(std::string folder, OnnxModel& model, int64_t most)
      : folder_(std::move(folder)), model_(model), most_(most) {}

  void add(const onnx::TensorProto& tensor) {
    if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
    with_context([&] { return context_of(tensor); },
                 [&] {
                   std::string location;
                   Wanted wanted{&tensor};
                   for (const auto& entry : tensor.external_data()) {
                     auto number = [&] {
                       const auto value = parse_number<uint64_t>(entry.value());
                       if (!value)
                         fail(ErrorKind::bad_file, "external data ", entry.key(), " '", entry.value(),
                              "' is not a number");
                       return *value;
                     };
                     if (entry.key() == "location") location = entry.value();
                     else if (entry.key() == "offset") wanted.offset = number();
                     else if (entry.key() == "length") wanted.length = number();
                   }
                   auto [it, fresh] = index_.try_emplace(location, files_.size());
                   if (fresh) {
                     files_.push_back({location, {}});
                     model_.files.push_back(concat(folder_, '/', location));
                   }
                   files_[it->second].wanted.push_back(wanted);
                 });
  }
  void add(const onnx::GraphProto& graph, int64_t depth) {
    if (depth > most_) refuse_depth(most_);
    for (const auto& tensor : graph.initializer()) add(tensor);
    for (const auto& node : graph.node()) add(node, depth);
  }
  void add(const onnx::NodeProto& node, int64_t depth) {
    for (const auto& attribute : node.attribute()) {
      if (attribute.has_t()) add(attribute.t());
      for (const auto& tensor : attribute.tensors()) add(tensor);
      if (attribute.has_g()) add(attribute.g(), depth + 1);
      for (const auto& graph : attribute.graphs()) add(graph, depth + 1);
    }
  }

  // Reads what the tensors need into memory, which is theirs from here on: what becomes of the files does not matter
  // any more. Returns the hashes of what was read, in order of appearance.
  std::string read() {
    std::string hashes;
    for (File& file : files_) {
      const auto& first = *file.wanted.front().tensor;
      with_context(
          [&] { return context_of(first); },
          [&] {
            const OpenFile opened = open_external(folder_, file.location);
            std::vector<FileRange> ranges;
            uint64_t end = 0;  // of the last tensor
            for (Wanted& wanted : file.wanted) {
              if (wanted.offset > opened.size() || (wanted.length && *wanted.length > opened.size() - wanted.offset))
                fail(ErrorKind::bad_file,
                     wanted.tensor == &first ? std::string() : concat(context_of(*wanted.tensor), ": "),
                     "external data '", file.location, "' has ", opened.size(), " bytes, too short for ",
                     wanted.length.value_or(0), " bytes at offset ", wanted.offset);
              if (!wanted.length) wanted.length = opened.size() - wanted.offset;
              ranges.push_back({size_t(wanted.offset), size_t(*wanted.length)});
              end = std::max(end, wanted.offset + *wanted.length);
            }
            // One that consists of holes may say terabytes: it is refused.
            const uint64_t on_disk = bytes_on_disk(opened, file.location),
                           limit = on_disk / 512 * uint64_t(512 * kMemoryPerByte) + uint64_t(kMemoryBeside);
            if (end > limit)
              fail(ErrorKind::bad_file, "external data '", file.location, "' has tensors up to byte ", end, " and ",
                   on_disk, " bytes on disk: it is made of holes. Copy it with cp --sparse=never if that is meant");
            const auto copy = std::make_shared<const FileCopy>(opened, std::move(ranges));
            for (const Wanted& wanted : file.wanted)
              model_.external[wanted.tensor] = {copy->at(size_t(wanted.offset), size_t(*wanted.length)), copy};
            for (const FileRange& range : copy->ranges()) hashes += sha256_hex(copy->at(range.offset, range.bytes));
          });
    }
    return hashes;
  }

 private:
  struct Wanted {
    const onnx::TensorProto* tensor;
    uint64_t offset = 0;
    std::optional<uint64_t> length = {};  // absent: to the file's end
  };
  struct File {
    std::string location;
    std::vector<Wanted> wanted;
  };
  static std::string context_of(const onnx::TensorProto& tensor) { return concat("tensor '", tensor.name(), "'"); }

  std::string folder_;
  OnnxModel& model_;
  int64_t most_;                         // subgraphs inside one another
  std::map<std::string, size_t> index_;  // by location
  std::vector<File> files_;              // in order of appearance
};

// Ops that ONNX does not have, and that are written without a domain all the same.
constexpr std::pair<std::string_view, std::string_view> kDomainsOfOps[] = {
    {"EfficientNMS_TRT", "TRT"},                         // exports for TensorRT
    {"SimplifiedLayerNormalization", "com.microsoft"}};  // ONNX Runtime's optimizer

void name_domains(onnx::GraphProto& graph, std::set<std::string>& used) {
  for (auto& node : *graph.mutable_node()) {
    for (const auto& [op, domain] : kDomainsOfOps)
      if (node.op_type() == op && (node.domain().empty() || node.domain() == domain)) {
        node.set_domain(std::string(domain));
        used.emplace(domain);
      }
    for (auto& attribute : *node.mutable_attribute())
      if (attribute.has_g()) name_domains(*attribute.mutable_g(), used);
  }
}

void name_domains(onnx::ModelProto& model) {
  std::set<std::string> used;
  name_domains(*model.mutable_graph(), used);
  for (const auto& opset : model.opset_import()) used.erase(opset.domain());
  for (const std::string& domain : used) {
    auto* const opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(1);
  }
}

// ONNX's checker looks for external files by itself. It gets a copy of the structure in which such tensors are empty.
void hide_external(onnx::TensorProto& tensor) {
  if (tensor.data_location() != onnx::TensorProto::EXTERNAL) return;
  tensor.clear_data_location();
  tensor.clear_external_data();
  tensor.clear_dims();
  tensor.add_dims(0);
}
void hide_external(onnx::GraphProto& graph) {
  for (auto& tensor : *graph.mutable_initializer()) hide_external(tensor);
  for (auto& node : *graph.mutable_node())
    for (auto& attribute : *node.mutable_attribute()) {
      if (attribute.has_t()) hide_external(*attribute.mutable_t());
      for (auto& tensor : *attribute.mutable_tensors()) hide_external(tensor);
      if (attribute.has_g()) hide_external(*attribute.mutable_g());
    }
}

// The checker says where it was on lines of their own.
std::string in_one_line(std::string text) {
  constexpr std::string_view context = "\n\n==> Context: ";
  for (size_t at; (at = text.find(context)) != text.npos;) text.replace(at, context.size(), ": ");
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  return text;
}

// The file's hash, which takes as long as the rest: on a thread beside the caller, or by get() itself where none can be
// started, or would take longer to start than the hash takes.
class HashBeside {
 public:
  explicit HashBeside(std::span<const std::byte> bytes) : bytes_(bytes) {
    constexpr size_t kWorthAThread = size_t(1) << 18;
    if (bytes.size() < kWorthAThread) return;
    try {
      result_ = std::async(std::launch::async, [bytes] { return sha256_hex(bytes); });
    } catch (const std::system_error&) {  // get() sees that nothing is under way
    }
  }
  std::string get() { return result_.valid() ? result_.get() : sha256_hex(bytes_); }

 private:
  std::span<const std::byte> bytes_;
  std::future<std::string> result_;
};

[[noreturn]] void refuse_size(int64_t bytes) {
  fail(ErrorKind::bad_file, "the model has ", bytes, " bytes; the limit is ", kMaxModelBytes,
       " (larger weights belong in external data)");
}

OnnxModel parse(std::string_view bytes, const std::string& folder, const ModelLimits& limits) {
  const std::span<const std::byte> all(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
  if (int64_t(bytes.size()) > kMaxModelBytes) refuse_size(int64_t(bytes.size()));
  if (bytes.empty()) fail(ErrorKind::bad_file, "the file is empty");
  check_limits(limits);
  const int64_t memory_limit =
      limits.memory < 0 ? kMemoryPerByte * int64_t(bytes.size()) + kMemoryBeside : limits.memory;
  if (const int64_t needed = message_memory(bytes, limits.depth); needed > memory_limit)
    fail(ErrorKind::bad_file, "the model of ", readable_bytes(int64_t(bytes.size())), " would take ",
         readable_bytes(needed), " once read; the limit is ", readable_bytes(memory_limit), " (", kMemoryPerByte,
         " times the file and ", readable_bytes(kMemoryBeside), "); --memory-limit SIZE sets another");
  HashBeside hash(all);
  OnnxModel model;
  model.proto = parse_in_parts(bytes, message_depth(limits.depth), model.parts);
  if (!model.proto) fail(ErrorKind::bad_file, "this is not an ONNX model (protobuf cannot read it)");
  limits.time.check();
  onnx::ModelProto& proto = *model.proto;
  if (!proto.has_graph() || proto.ir_version() <= 0)
    fail(ErrorKind::bad_file, "this is not an ONNX model: it has no graph or no ir_version");
  if (proto.ir_version() > kMaxIr)
    fail(ErrorKind::unsupported, "the model has IR version ", int64_t(proto.ir_version()), "; up to ", kMaxIr,
         " is supported. Save it again with an older release of onnx, or with ir_version = ", kMaxIr);
  for (const auto& opset : proto.opset_import())
    if ((opset.domain().empty() || opset.domain() == "ai.onnx") &&
        (opset.version() > kMaxOpset || opset.version() < kMinOpset))
      fail(ErrorKind::unsupported, "the model has opset ", int64_t(opset.version()), "; ", kMinOpset, " to ", kMaxOpset,
           " are supported. Export it again with opset_version=20, say");
  name_domains(proto);
  const ExpandedSize size = expanded_size(proto, limits.depth);
  if (size.nodes > limits.nodes)
    refuse_nodes(concat("the model has ", size.nodes, " nodes",
                        proto.functions_size() ? ", with its functions in the place of their calls" : ""),
                 limits.nodes);
  if (size.bytes > kMaxModelBytes)
    fail(ErrorKind::bad_file, "the model has ", size.bytes,
         " bytes with its functions in the place of their calls; the limit is ", kMaxModelBytes);
  ExternalData external(folder, model, limits.depth);
  external.add(proto.graph(), 0);
  for (const auto& function : proto.functions())
    for (const auto& node : function.node()) external.add(node, 1);
  model.sha256 = hash.get();
  if (const std::string of_others = external.read(); !of_others.empty()) {
    const std::string hashes = model.sha256 + of_others;
    model.sha256 = sha256_hex(std::as_bytes(std::span(hashes)));
  }
  try {
    if (model.external.empty()) {
      onnx::checker::check_model(proto);
    } else {
      onnx::ModelProto copy = proto;
      hide_external(*copy.mutable_graph());
      for (auto& function : *copy.mutable_functions())
        for (auto& node : *function.mutable_node())
          for (auto& attribute : *node.mutable_attribute())
            if (attribute.has_t()) hide_external(*attribute.mutable_t());
      onnx::checker::check_model(copy);
    }
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {  // ONNX reports through several exception types of its own
    const std::string why = in_one_line(error.what());
    if (why.find("No Op registered") != why.npos)  // well-formed perhaps, but of an op that this ONNX does not define
      fail(ErrorKind::unsupported, why,
           ". Write that op as ops that ONNX defines, or give it a function body in the model");
    fail(ErrorKind::bad_file, "ONNX's checker refuses the model: ", why);
  }
  limits.time.check();
  return model;
}

// What a broken download leaves may be gigabytes of zeros: they are refused before they are copied. The first byte of
// a model holds the number of a field, which is not 0.
void refuse_zeros(const OpenFile& file) {
  std::byte first{1 << 3};
  if (file.size() > 0) file.read(0, {&first, 1});
  if (std::to_integer<int>(first) >> 3 == 0)
    fail(ErrorKind::bad_file, "this is not an ONNX model (a field has the number 0)");
}

}  // namespace

OnnxModel parse_onnx(std::string_view bytes, const std::string& folder, const ModelLimits& limits) {
  return parse(bytes, folder, limits);
}

OnnxModel read_onnx(const std::string& path, const ModelLimits& limits) {
  return with_context([&] { return path; },
                      [&] {
                        // A copy: a map would end in a signal where the file is cut meanwhile.
                        const OpenFile opened(path);
                        if (int64_t(opened.size()) > kMaxModelBytes) refuse_size(int64_t(opened.size()));
                        refuse_zeros(opened);
                        const FileCopy file(opened);
                        const auto bytes = file.at(0, opened.size());
                        OnnxModel model =
                            parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, folder_of(path), limits);
                        model.path = path;
                        model.files.insert(model.files.begin(), path);
                        return model;
                      });
}

}  // namespace temper
