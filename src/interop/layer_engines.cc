// SPDX-License-Identifier: Apache-2.0
#include "interop/layer_engines.h"

#include <algorithm>
#include <deque>
#include <map>

#include "interop/layer_file.h"
#include "interop/trtexec_times.h"
#include "measure/statistics.h"

namespace temper {

namespace {

// Names are compared without what one file escapes and the other does not.
std::string key_of(const std::string& name) {
  std::string key;
  for (char c : name)
    if (c != '\\' && c != '"' && static_cast<unsigned char>(c) >= 0x20) key += c;
  return key;
}

std::string engine_name(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  for (const char* ending : {".json", ".graph", ".layers", ".layer_info", ".layerinfo", ".profile", ".engine"})
    if (const size_t size = std::string_view(ending).size(); name.size() > size && name.ends_with(ending))
      name.resize(name.size() - size);
  return name;
}

struct Group {
  EngineLayers engine;
  std::string layers, profile, times;  // paths; "" where there is none
  bool has_layers() const { return !layers.empty(); }
};

template <class F>
auto in_file(const std::string& path, F&& f) {
  return with_context([&] { return path; }, std::forward<F>(f));
}

// A name may be there more than once: then its layers take its times in their order.
void join_profile(EngineLayers& engine, const LayerProfile& profile, const std::string& layers) {
  std::map<std::string, std::deque<const LayerTime*>> times;
  for (const LayerTime& time : profile.layers) times[key_of(time.name)].push_back(&time);
  size_t joined = 0;
  for (EngineLayer& layer : engine.layers) {
    auto& left = times[key_of(layer.name)];
    if (left.empty()) continue;
    layer.ms = left.front()->ms;
    left.pop_front();
    ++joined;
  }
  if (!joined)
    fail(ErrorKind::bad_file, "none of its ", profile.layers.size(), " names, '", profile.layers[0].name,
         "' the first, is a layer in ", layers, ": is it of another engine?");
  const size_t known = engine.layers.size();
  for (const LayerTime& time : profile.layers) {
    auto& left = times[key_of(time.name)];
    if (left.empty() || left.front() != &time) continue;
    left.pop_front();
    engine.layers.push_back(layer_of_name(time.name));
    engine.layers.back().ms = time.ms;
  }
  if (const size_t more = engine.layers.size() - known)
    engine.notes.push_back(concat(more, " of ", profile.layers.size(),
                                  " layers in the profile are not in the layer "
                                  "information: of those only names and times are known"));
  if (joined < known)
    engine.notes.push_back(concat(known - joined, " of ", known, " layers have no time in the profile"));
}

void add_profile(Group& group, const LayerFile& file) {
  if (!group.profile.empty())
    fail(ErrorKind::usage, group.profile, " and ", file.path, " are both layer profiles of the engine '",
         group.engine.name, "': give one, or the layer information of the second engine before it");
  group.profile = file.path;
  in_file(file.path, [&] {
    const LayerProfile profile = read_layer_profile(file.text);
    if (group.has_layers()) return join_profile(group.engine, profile, group.layers);
    for (const LayerTime& time : profile.layers) {
      group.engine.layers.push_back(layer_of_name(time.name));
      group.engine.layers.back().ms = time.ms;
    }
    group.engine.notes.push_back(
        "there is no layer information (--exportLayerInfo): kinds are told by the layers' names, "
        "precisions are not known");
  });
}

void add_times(Group& group, const LayerFile& file) {
  if (!group.times.empty())
    fail(ErrorKind::usage, group.times, " and ", file.path, " are both files of times of the engine '",
         group.engine.name, "'");
  group.times = file.path;
  in_file(file.path, [&] {
    TrtexecTimes times = read_trtexec_times(file.text);
    group.engine.runs = int64_t(times.gpu.size());
    group.engine.run_ms = median(std::move(times.gpu));
    if (times.enqueue) group.engine.enqueue_ms = median(std::move(*times.enqueue));
  });
}

}  // namespace

std::vector<EngineLayers> engines_of(const std::vector<LayerFile>& files) {
  std::vector<LayerFileKind> kinds;
  for (const LayerFile& file : files) {
    const auto kind = layer_file_kind(file.text);
    if (!kind)
      fail(ErrorKind::bad_file, file.path,
           ": it is neither a plan nor a file of trtexec --exportLayerInfo, --exportProfile or --exportTimes");
    kinds.push_back(*kind);
  }
  const auto engines = std::count(kinds.begin(), kinds.end(), LayerFileKind::layers);
  const LayerFileKind first = engines ? LayerFileKind::layers : LayerFileKind::profile;
  std::vector<Group> groups;
  auto begin = [&](const LayerFile& file) {
    groups.push_back({});
    groups.back().engine.name = engine_name(file.path);
  };
  if (engines == 1)  // whatever stands before it belongs to it
    begin(files[size_t(std::find(kinds.begin(), kinds.end(), first) - kinds.begin())]);
  // Layer information first where there is one engine: the profile is joined to it.
  std::vector<size_t> order(files.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  if (engines == 1)
    std::stable_partition(order.begin(), order.end(), [&](size_t i) { return kinds[i] == LayerFileKind::layers; });
  for (const size_t i : order) {
    const LayerFile& file = files[i];
    if (kinds[i] == first && engines != 1) begin(file);
    if (groups.empty())
      fail(ErrorKind::usage, file.path,
           " belongs to no engine: give its layer information (--exportLayerInfo) before it");
    Group& group = groups.back();
    if (kinds[i] == LayerFileKind::layers) {
      std::string name = group.engine.name;
      group.engine = in_file(file.path, [&] { return read_layer_info(file.text).engine; });
      group.engine.name = std::move(name);
      group.layers = file.path;
    } else if (kinds[i] == LayerFileKind::profile) {
      add_profile(group, file);
    } else {
      add_times(group, file);
    }
  }
  std::vector<EngineLayers> result;
  for (Group& group : groups) result.push_back(std::move(group.engine));
  return result;
}

}  // namespace temper
