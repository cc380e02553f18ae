// SPDX-License-Identifier: Apache-2.0
#include "onnx/external.h"

#include <fcntl.h>
#include <google/protobuf/io/coded_stream.h>
#include <limits.h>
#include <onnx/onnx_pb.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <set>
#include <utility>

#include "onnx/read.h"

namespace temper {

namespace {

struct OpenFolder {
  explicit OpenFolder(int number) : fd(number) {}
  OpenFolder(OpenFolder&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  ~OpenFolder() {
    if (fd >= 0) close(fd);
  }
  int fd;
};

std::deque<std::string> names_of(const std::filesystem::path& path) {
  std::deque<std::string> names;
  for (const auto& name : path)
    if (!name.empty() && name != "." && name != "/") names.push_back(name.string());
  return names;
}

class FolderWalk {
 public:
  FolderWalk(const std::string& folder, const std::string& location) : location_(location), root_(folder) {
    open_folders_.emplace_back(open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (open_folders_[0].fd < 0) refuse(std::strerror(errno));
  }

  // Leaves the last name's file open for reading.
  int run() {
    constexpr int kMostLinks = 40;
    int links = 0;
    std::deque<std::string> names = names_of(location_);
    if (names.empty()) refuse("it names no file");
    while (!names.empty()) {
      const std::string name = names.front();
      names.pop_front();
      if (name == "..") {
        if (open_folders_.size() == 1) leads_out();
        open_folders_.pop_back();
        continue;
      }
      const int folder = open_folders_.back().fd;
      char to[PATH_MAX];
      const ssize_t length = readlinkat(folder, name.c_str(), to, sizeof to);
      if (length >= 0 && size_t(length) < sizeof to) {
        if (++links > kMostLinks) refuse(std::strerror(ELOOP));
        follow(std::string(to, size_t(length)), names);
        continue;
      }
      // Neither call follows a link that has appeared since. O_NONBLOCK: opening a FIFO must not wait for a writer.
      if (names.empty()) {
        const int fd = openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0) refuse(std::strerror(errno));
        return fd;
      }
      open_folders_.emplace_back(openat(folder, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (open_folders_.back().fd < 0) refuse(std::strerror(errno));
    }
    refuse("it names a folder");
  }

 private:
  // The target of a link goes before the names that are left. From the root of the file system it must come back.
  void follow(const std::filesystem::path& to, std::deque<std::string>& names) {
    std::deque<std::string> more = names_of(to);
    if (to.is_absolute()) {
      std::error_code error;
      const std::deque<std::string> root = names_of(std::filesystem::canonical(root_, error));
      if (error || more.size() <= root.size() || !std::equal(root.begin(), root.end(), more.begin())) leads_out();
      more.erase(more.begin(), more.begin() + ptrdiff_t(root.size()));
      while (open_folders_.size() > 1) open_folders_.pop_back();
    }
    names.insert(names.begin(), more.begin(), more.end());
  }
  [[noreturn]] void refuse(std::string_view why) const {
    fail(ErrorKind::bad_file, "external data '", location_, "' is not opened: ", why);
  }
  [[noreturn]] void leads_out() const { refuse("a link leads out of the model's folder"); }

  const std::string& location_;
  std::string root_;
  std::vector<OpenFolder> open_folders_;  // from the model's down
};

void collect(const onnx::TensorProto& tensor, std::set<std::string>& locations) {
  for (const auto& entry : tensor.external_data())
    if (entry.key() == "location") locations.insert(entry.value());
}
void collect(const onnx::NodeProto& node, std::set<std::string>& locations);
void collect(const onnx::GraphProto& graph, std::set<std::string>& locations) {
  for (const auto& tensor : graph.initializer()) collect(tensor, locations);
  for (const auto& node : graph.node()) collect(node, locations);
}
void collect(const onnx::NodeProto& node, std::set<std::string>& locations) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.has_t()) collect(attribute.t(), locations);
    for (const auto& tensor : attribute.tensors()) collect(tensor, locations);
    if (attribute.has_g()) collect(attribute.g(), locations);
    for (const auto& graph : attribute.graphs()) collect(graph, locations);
  }
}

}  // namespace

OpenFile open_external(const std::string& folder, const std::string& location) {
  const std::filesystem::path relative(location);
  const auto refuse = [&](std::string_view why) {
    fail(ErrorKind::bad_file, "external data '", location, "' is not opened: ", why);
  };
  if (location.find('\0') != location.npos)
    fail(ErrorKind::bad_file, "external data is not opened: its name holds a NUL");
  if (location.empty()) refuse("it names no file");
  if (relative.is_absolute()) refuse("the path is absolute; it must lie in the model's folder");
  for (const auto& part : relative)
    if (part == "..") refuse("the path leaves the model's folder through '..'");
  return OpenFile(FolderWalk(folder, location).run(), (std::filesystem::path(folder) / relative).string());
}

std::vector<std::string> model_files(const std::string& path) {
  std::vector<std::string> files{path};
  const FileKind kind = kind_of_file(path);
  if (kind != FileKind::onnx && kind != FileKind::our_onnx) return files;
  std::set<std::string> locations;
  try {
    const MappedFile file(path);
    if (int64_t(file.bytes().size()) > kMaxModelBytes) return files;
    google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(file.bytes().data()),
                                                  int(file.bytes().size()));
    stream.SetRecursionLimit(message_depth(kMostDepth));
    onnx::ModelProto model;
    if (!model.ParseFromCodedStream(&stream)) return files;
    collect(model.graph(), locations);
    for (const auto& function : model.functions())
      for (const auto& node : function.node()) collect(node, locations);
  } catch (const Error&) {
    return files;  // the import says what is wrong with it
  }
  for (const std::string& location : locations) files.push_back(concat(folder_of(path), '/', location));
  return files;
}

}  // namespace temper
