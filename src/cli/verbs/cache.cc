// SPDX-License-Identifier: Apache-2.0
// temper cache: shows and clears what Temper keeps between runs.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/file_kind.h"
#include "bench/table.h"
#include "cli/json_text.h"
#include "cli/terminal.h"
#include "cli/verb.h"

namespace temper::cli {

namespace {

namespace fs = std::filesystem;

struct Part {
  const char* name;
  const char* what;
  std::vector<fs::path> files;
  int64_t bytes = 0;
};

struct CacheFlags {
  bool path = false;
  std::string clear;
};

// Only what Temper made, by its contents: a folder of this name may hold other things, too.
std::vector<Part> parts_in(const std::string& folder) {
  std::vector<Part> parts{{"timings", "measured times of candidates", {}}, {"kernels", "compiled GPU kernels", {}}};
  std::error_code error;
  const auto add = [&](Part& part, const fs::directory_entry& entry, bool counts) {
    if (!counts || !entry.is_regular_file(error)) return;
    part.files.push_back(entry.path());
    part.bytes += int64_t(entry.file_size(error));
  };
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    add(parts[0], *it, name == "timings.json" || name == "timings.json.bad");
  }
  for (fs::directory_iterator it(folder + "/kernels", error), end; !error && it != end; it.increment(error))
    add(parts[1], *it, kind_of_file(it->path().string()) == FileKind::cubin);
  return parts;
}

void cache(const CacheFlags& options, const Context& context) {
  const std::string folder = cache_folder();
  if (options.path && context.json) {
    print_json({{"schema", "temper.cache_path/1"}, {"folder", folder}});
    return;
  }
  if (options.path) {
    std::printf("%s\n", folder.c_str());
    return;
  }
  std::vector<Part> parts = parts_in(folder);
  nlohmann::ordered_json json{
      {"schema", "temper.cache/1"}, {"folder", folder}, {"parts", nlohmann::ordered_json::array()}};
  Table table{{{"part", false}, {"files"}, {"size"}, {"what it is", false}}, {}};
  for (Part& part : parts) {
    const bool clears = options.clear == "all" || options.clear == part.name;
    const size_t count = part.files.size();
    for (const fs::path& file : part.files)
      if (std::error_code error; clears && !fs::remove(file, error) && error)
        fail(ErrorKind::machine, "'", file.string(), "' cannot be removed: ", error.message());
    json["parts"].push_back({{"part", part.name}, {"files", count}, {"bytes", part.bytes}, {"cleared", clears}});
    table.rows.push_back({part.name, concat(count), format_bytes(double(part.bytes)), clears ? "cleared" : part.what});
  }
  if (context.json) {
    print_json(json);
    return;
  }
  print_line("folder", folder);
  print_table(table);
  print_text("what is cleared is measured or compiled again by the builds that need it");
}

}  // namespace

void add_cache(Command& verb, Context& context) {
  auto options = std::make_shared<CacheFlags>();
  verb.add_flag("--path", options->path, "print the path of the cache folder alone");
  verb.add_option("--clear", options->clear, "part to remove: timings, kernels or all")
      .check(one_of({"timings", "kernels", "all"}))
      .excludes("--path");
  verb.callback([options, &context] { cache(*options, context); });
}

}  // namespace temper::cli
