// SPDX-License-Identifier: Apache-2.0
#include "cli/kit.h"

#include <filesystem>
#include <span>

#include "base/file.h"
#include "base/hash.h"
#include "base/json_struct.h"
#include "base/new_folder.h"
#include "base/version.h"
#include "onnx/external.h"
#include "onnx/import.h"
#include "quantize/ranges.h"
#include "tune/cache.h"

namespace temper::cli {

namespace {

namespace fs = std::filesystem;

constexpr const char *kList = "kit.json", *kModelFolder = "model", *kRanges = "ranges.json", *kTimes = "times.json";

}  // namespace

struct KitFile {
  std::string name, sha256;  // below the folder
  int64_t bytes = 0;
};

struct KitList {
  std::string made_by, model, ranges, times;
  KitBuild build;
  std::vector<KitFile> files;
};

template <class V, Is<KitFile> T>
static void json_fields(V& v, T& file) {
  v.field("name", file.name);
  v.field("sha256", file.sha256);
  v.field("bytes", file.bytes, Within{0});
}

template <class V, Is<KitBuild> T>
static void json_fields(V& v, T& build) {
  v.field("precision", build.precision);
  v.field("shapes", build.shapes);
  v.field("buckets", build.buckets);
  if constexpr (V::kReads) v.may_lack("activation_scales", build.activation_scales);  // which older kits do
  else v.field("activation_scales", build.activation_scales);
  v.field("keep_first", build.keep_first);
  v.field("keep_last", build.keep_last);
  v.field("keep_fp32", build.keep_fp32);
  v.field("keep_bf16", build.keep_bf16);
  v.field("keep_fp16", build.keep_fp16);
  v.field("disable", build.disabled_passes);
  v.field("preprocess", build.preprocess);
  v.field("cache", build.cache, Within{0, 1 << 24});
  v.field("input_pictures", build.input_pictures);
}

// All but the schema.
template <class V, Is<KitList> T>
static void json_fields(V& v, T& kit) {
  v.field("made_by", kit.made_by);
  v.field("model", kit.model);
  v.field("ranges", kit.ranges);
  v.field("times", kit.times);
  v.field("build", kit.build);
  v.field("files", kit.files);
}

namespace {

std::string text_of(const KitList& kit) {
  JsonWriter<strict::Json> writer;
  writer.field("schema", kKitSchema);
  json_fields(writer, kit);
  return strict::dump(writer.object, 2) + "\n";
}

KitList list_of(const std::string& folder) {
  std::string path = concat(folder, "/", kList);
  if (!file_exists(path))
    fail(ErrorKind::bad_file, "'", folder, "' is no kit: there is no ", kList, " in it; temper kit makes one");
  const std::string text = read_file(path, size_t(1) << 24);
  return with_context([&] { return path; },
                      [&] {
                        const strict::Json json = strict::parse(text, "the list of the kit");
                        const JsonInput root(json, "", kKitSchema);
                        JsonReader reader(root);
                        reader.expect_schema("temper kit MODEL -o FOLDER");
                        KitList kit;
                        json_fields(reader, kit);
                        reader.finish();
                        return kit;
                      });
}

// A name in a list may be anybody's: it stays in the folder.
void check_name(const std::string& name) {
  const fs::path path(name);
  bool fits = !name.empty() && path.is_relative() && name.find('\0') == name.npos;
  for (const fs::path& part : path) fits = fits && part != ".." && !part.empty();
  if (!fits) fail(ErrorKind::bad_file, "the kit names the file '", name, "', which is not one in its folder");
}

// What a kit is made of, before it has its name.
class Filling {
 public:
  explicit Filling(const fs::path& folder) : folder_(folder) {}
  void add(const std::string& name, std::string_view bytes) {
    const fs::path to = folder_ / name;
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    if (error) fail(ErrorKind::machine, "'", to.parent_path().string(), "' cannot be made: ", error.message());
    write_file_atomically(to.string(), bytes);
    list.files.push_back({name, sha256_hex(std::as_bytes(std::span(bytes))), int64_t(bytes.size())});
  }
  void copy(const std::string& name, const std::string& from) {
    const MappedFile file(from);
    add(name, {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  }
  KitList list;

 private:
  fs::path folder_;
};

}  // namespace

void write_kit(const std::string& folder, const std::string& model, const std::string& ranges,
               const std::vector<std::string>& timing_caches, const KitBuild& build, bool force) {
  fs::path target = fs::path(folder).lexically_normal();
  if (!target.has_filename()) target = target.parent_path();
  const bool is_there = fs::exists(fs::symlink_status(target));
  if (is_there && !fs::is_empty(target)) {
    if (!fs::is_directory(target) || !file_exists((target / kList).string()))
      fail(ErrorKind::usage, "'", folder, "' is there and no kit; give another name");
    if (!force) fail(ErrorKind::usage, "'", folder, "' is a kit already; --force replaces it");
  }
  TimingCache times;
  for (const std::string& path : timing_caches) {
    const std::string text = read_file(path);
    times.add_all(with_context([&] { return path; }, [&] { return TimingCache::of_text(text); }));
  }
  NewFolder made(target.has_parent_path() ? target.parent_path() : fs::path("."));
  Filling filling(made.path());
  KitList& list = filling.list;
  list.made_by = version();
  list.build = build;
  for (const std::string& path : model_files(model)) {
    const std::string name = path == model ? fs::path(model).filename().string()
                                           : fs::path(path).lexically_relative(folder_of(model)).string();
    filling.copy(concat(kModelFolder, "/", name), path);
  }
  list.model = list.files.at(0).name;
  if (!ranges.empty()) filling.copy(list.ranges = kRanges, ranges);
  if (!timing_caches.empty()) filling.add(list.times = kTimes, times.text());
  // Of the copies, which are what the device reads.
  const ImportedModel imported = import_onnx((made.path() / list.model).string(), {});
  if (!ranges.empty()) check_model(load_ranges((made.path() / kRanges).string()), imported.sha256);
  write_file_atomically((made.path() / kList).string(), text_of(list));
  if (is_there && !fs::is_empty(target)) made.replace(target);
  else made.become(target);
}

Kit read_kit(const std::string& folder) {
  const KitList list = list_of(folder);
  for (const KitFile& file : list.files) {
    check_name(file.name);
    const std::string path = folder + "/" + file.name;
    if (!file_exists(path)) fail(ErrorKind::bad_file, "'", path, "' is missing; the kit is not whole: copy it again");
    if (int64_t(OpenFile(path).size()) != file.bytes || sha256_of_file(path) != file.sha256)
      fail(ErrorKind::bad_file, "'", path, "' is not the file that the kit was made with; copy the kit again");
  }
  const auto path_of = [&](const std::string& name, bool may_lack) {
    if (name.empty() && may_lack) return std::string();
    for (const KitFile& file : list.files)
      if (file.name == name) return concat(folder, "/", name);
    fail(ErrorKind::bad_file, "'", folder, "/", kList, "' names '", name, "' and has no such file");
  };
  return {path_of(list.model, false), path_of(list.ranges, true), path_of(list.times, true), list.build};
}

}  // namespace temper::cli
