// SPDX-License-Identifier: Apache-2.0
#include "base/file_kind.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <vector>

namespace temper {

namespace {

constexpr size_t kSeen = 4096;  // bytes at either end that are looked at

struct Schema {
  std::string_view name;
  FileKind kind;
};
constexpr Schema schemas[] = {{"temper.ranges", FileKind::ranges},   {"temper.timings", FileKind::timings},
                              {"temper.result", FileKind::result},   {"temper.scaling", FileKind::scaling},
                              {"temper.profile", FileKind::profile}, {"temper.explain", FileKind::explanation},
                              {"temper.study", FileKind::study},     {"temper.step", FileKind::step}};

struct File {
  int fd = -1;
  size_t size = 0;
  ~File() {
    if (fd >= 0) close(fd);
  }
  std::string read(size_t offset, size_t count) const {
    std::string bytes(offset < size ? std::min(count, size - offset) : 0, '\0');
    size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t got = pread(fd, bytes.data() + done, bytes.size() - done, off_t(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += size_t(got);
    }
    bytes.resize(done);
    return bytes;
  }
};

// Protobuf's numbers: seven bits a byte, the lowest first. False where the bytes end or it is longer than 64 bits.
bool take_varint(std::string_view& bytes, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= uint64_t(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// A ModelProto has few fields at its top; the large one, its graph, is stepped over.
FileKind onnx_kind(const File& file) {
  constexpr uint64_t kProducer = 2, kGraph = 7, kMetadata = 14, kLastField = 25;
  constexpr int kMostFields = 4096;  // functions are fields, too
  bool has_graph = false, ours = false;
  size_t at = 0;
  for (int fields = 0; at < file.size && fields < kMostFields; ++fields) {
    const std::string bytes = file.read(at, 128);
    std::string_view rest = bytes;
    uint64_t tag = 0, length = 0;
    if (!take_varint(rest, tag)) return FileKind::other;
    const uint64_t field = tag >> 3, wire = tag & 7;
    if (field == 0 || field > kLastField || (wire != 0 && wire != 2)) return FileKind::other;
    if (!take_varint(rest, length)) return FileKind::other;  // of wire type 0: the value itself
    at += bytes.size() - rest.size();
    if (wire == 0) continue;
    has_graph |= field == kGraph;
    const std::string_view text = rest.substr(0, size_t(std::min<uint64_t>(length, rest.size())));
    ours |= (field == kProducer && text == "temper" && length == text.size()) ||
            (field == kMetadata && text.find("temper.source") != text.npos);
    if (length > file.size - at) return has_graph ? FileKind::onnx : FileKind::other;  // cut off: still a model's
    at += size_t(length);
  }
  return !has_graph ? FileKind::other : ours ? FileKind::our_onnx : FileKind::onnx;
}

FileKind kind_of_schema(std::string_view text) {
  for (const Schema& schema : schemas)
    if (text.starts_with(schema.name) && text.substr(schema.name.size()).starts_with('/')) return schema.kind;
  return FileKind::other;
}

// By the text behind the key "schema" of the outermost object, wherever it stands: some files have their keys sorted.
FileKind json_kind(const File& file, std::string_view head) {
  constexpr size_t kStep = size_t(1) << 20, kLongestWord = 64;
  int depth = 0;
  bool in_string = false, escaped = false, is_value = false;
  std::string word, key;  // of the outermost object, no more of them than is looked at
  for (size_t at = 0; at < file.size; at += kStep) {
    for (const char c : file.read(at, kStep)) {
      if (in_string) {
        if (escaped) escaped = false;
        else if (c == '\\') escaped = true;
        else if (c == '"') {
          in_string = false;
          if (depth == 1 && is_value && key == "schema") return kind_of_schema(word);
          if (depth == 1 && !is_value) key = word;
        } else if (depth == 1 && word.size() < kLongestWord) word += c;
      } else if (c == '"') {
        in_string = true;
        word.clear();
      } else if (c == '{' || c == '[') ++depth;
      else if (c == '}' || c == ']') --depth;
      else if (depth == 1 && c == ':') is_value = true;
      else if (depth == 1 && c == ',') is_value = false;
    }
  }
  // Times whose end, with the schema, is missing.
  head.remove_prefix(1);
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  return head.starts_with("\"entries\"") ? FileKind::timings : FileKind::other;
}

FileKind text_kind(std::string_view head) {
  const auto line = head.substr(0, head.find('\n'));
  if (line.starts_with("TRT-")) return FileKind::calibration_cache;
  if (line.starts_with("temper cubin ")) return FileKind::cubin;
  if (line.starts_with("graph \"")) return FileKind::graph;
  if (line.starts_with("<!doctype html>") && head.find("\"Content-Security-Policy\"") != head.npos)
    return FileKind::page;
  if (head.starts_with("<svg") || (head.starts_with("<?xml") && head.find("<svg") != head.npos)) return FileKind::svg;
  if (head.starts_with("<?xml") && head.find("<testsuite name=\"temper gate\"") != head.npos) return FileKind::junit;
  for (std::string_view header : {"model,model_sha256,", "step,op,ms,share,"})
    if (line.starts_with(header)) return FileKind::csv;
  if (line.starts_with("| ") || line.starts_with("## ")) return FileKind::markdown;
  if (line.starts_with("# ") && head.substr(line.size()).starts_with("\n\n| precision |")) return FileKind::markdown;
  return FileKind::other;
}

bool zeros_alone(const File& file) {
  constexpr size_t kStep = size_t(1) << 20;
  for (size_t at = 0; at < file.size; at += kStep) {
    const std::string bytes = file.read(at, kStep);
    if (bytes.empty() || bytes.find_first_not_of('\0') != bytes.npos) return false;
  }
  return true;
}

}  // namespace

FileKind kind_of_file(const std::string& path) {
  File file;
  file.fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file.fd < 0) return errno == ENOENT ? FileKind::nothing : FileKind::other;
  struct stat info;
  if (fstat(file.fd, &info) != 0 || !S_ISREG(info.st_mode)) return FileKind::other;
  file.size = size_t(info.st_size);
  if (file.size == 0) return FileKind::nothing;
  const std::string head = file.read(0, kSeen);
  const std::string_view magic(reinterpret_cast<const char*>(kPlanMagic.data()), kPlanMagic.size());
  if (head.starts_with(magic)) return FileKind::plan;
  if (head.starts_with("\x93NUMPY")) return FileKind::npy;
  if (head.starts_with("\x89PNG\r\n")) return FileKind::png;
  if (head.starts_with('{')) return json_kind(file, head);
  if (const FileKind kind = text_kind(head); kind != FileKind::other) return kind;
  if (head.find_first_not_of('\0') == head.npos) return zeros_alone(file) ? FileKind::nothing : FileKind::other;
  return onnx_kind(file);
}

std::string_view words_of(FileKind kind) {
  switch (kind) {
    case FileKind::other: return "a file that Temper did not write";
    case FileKind::nothing: return "an empty file";
    case FileKind::onnx: return "an ONNX model that Temper did not write";
    case FileKind::our_onnx: return "an ONNX model";
    case FileKind::plan: return "a plan";
    case FileKind::ranges: return "a file of ranges";
    case FileKind::timings: return "a timing cache";
    case FileKind::result: return "a result";
    case FileKind::scaling: return "a result of several devices";
    case FileKind::profile: return "a profile";
    case FileKind::explanation: return "an explanation";
    case FileKind::study: return "a study";
    case FileKind::step: return "a step of a study";
    case FileKind::calibration_cache: return "a calibration cache of TensorRT";
    case FileKind::page: return "a report";
    case FileKind::csv: return "a CSV table of Temper's";
    case FileKind::junit: return "an XML of test results of Temper's";
    case FileKind::markdown: return "markdown of Temper's";
    case FileKind::svg: return "an SVG picture";
    case FileKind::png: return "a PNG picture";
    case FileKind::npy: return "an .npy file";
    case FileKind::graph: return "the text of a graph";
    case FileKind::cubin: return "a compiled GPU kernel";
  }
  return "";
}

}  // namespace temper
