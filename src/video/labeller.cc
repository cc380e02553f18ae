// SPDX-License-Identifier: Apache-2.0
#include "video/labeller.h"

#include <algorithm>
#include <cstring>
#include <fstream>

#include "clients/dependence.h"

namespace temper::video {

namespace {

void check(temper_status status) {
  if (status != TEMPER_OK) throw temper::Error(status, temper_last_error());
}

[[noreturn]] void refuse(const std::string& why) { throw temper::Error(TEMPER_USAGE, why); }

std::string text_of(const std::vector<int64_t>& dims) {
  std::string out = "[";
  for (const int64_t dim : dims) out += (out.size() == 1 ? "" : ",") + (dim < 0 ? "?" : std::to_string(dim));
  return out + "]";
}

std::vector<std::string> read_names(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> names;
  std::string line;
  while (std::getline(file, line)) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (std::any_of(line.begin(), line.end(), [](unsigned char c) { return (c < ' ' && c != '\t') || c == 127; }))
      throw temper::Error(TEMPER_BAD_FILE, "'" + path + "': line " + std::to_string(names.size() + 1) +
                                               " holds control characters; class names are a text file, one a line");
    names.push_back(line);
  }
  if (names.empty()) throw temper::Error(TEMPER_BAD_FILE, "'" + path + "': no class names can be read from it");
  return names;
}

temper::Engine load(const std::string& plan) {
  if (plan.empty()) refuse("no plan is given: plan=FILE names one that `temper build MODEL -o FILE` made");
  return temper::Engine::load(plan);
}

bool is_float(temper_dtype dtype) {
  return dtype == TEMPER_F32 || dtype == TEMPER_F16 || dtype == TEMPER_BF16 || dtype == TEMPER_F64;
}

bool is_channels(int64_t dim) { return dim == 1 || dim == 3; }

// Beyond 1 from the third dimension on it is no classifier's.
bool is_classes(const OutputRow& output) {
  return is_float(output.dtype) && output.dims.size() >= 2 && output.dims[1] > 1 &&
         std::all_of(output.dims.begin() + 2, output.dims.end(), [](int64_t dim) { return dim == 1; });
}

bool is_map(const OutputRow& output) {
  return output.dtype == TEMPER_F32 && output.dims.size() == 4 && output.dims[1] == 1 && output.dims[2] > 0 &&
         output.dims[3] > 0;
}

// As many samples as a profile takes, where they do not depend on each other: each frame has the labels that it would
// have alone.
size_t most_of(const temper::Engine& engine) {
  constexpr int64_t kMost = 64;  // where nothing limits it
  int64_t most = 1;
  for (const auto& profile : engine.profiles())
    most = std::max(most, profile[0].max[0] < 0 ? kMost : profile[0].max[0]);
  const auto buckets = engine.buckets();
  if (most < 2 || buckets.empty()) return 1;
  if (!engine.samples_are_independent()) {
    std::vector<int64_t> dims = buckets[0][0].dims;
    dims[0] = 2;
    if (!clients::dependence_of(engine, {dims}).empty()) return 1;
  }
  return size_t(most);
}

}  // namespace

Labeller::Labeller(const LabellerOptions& options) : options_(options), engine_(load(options.plan)), preprocessing_{} {
  const auto inputs = engine_.inputs();
  if (inputs.size() != 1)
    refuse("'" + options.plan + "' has " + std::to_string(inputs.size()) + " inputs; frames are given to one");
  const std::vector<int64_t>& dims = inputs[0].dims;
  if (dims.size() != 4 || (!is_channels(dims[1]) && !is_channels(dims[3])))
    refuse("'" + options.plan + "' takes no pictures: its input '" + inputs[0].name + "' is " + text_of(dims) +
           "; [batch, height, width, channels] or [batch, channels, height, width] with 1 or 3 channels is needed");
  if (dims[0] > 1)
    refuse("'" + options.plan + "' takes batches of " + std::to_string(dims[0]) +
           " and nothing else, and frames come one by one: export the model with an open batch");
  const auto profiles = engine_.profiles();
  int64_t sample[3];
  if (temper_picture_dims(engine_.handle(), 0, nullptr, sample) != TEMPER_OK) {
    const size_t at = is_channels(dims[1]) ? 2 : 1;
    const temper::ShapeRange& range = profiles.at(0).at(0);
    own_size_ = range.min[at] != range.max[at] || range.min[at + 1] != range.max[at + 1] || range.min[at] < 1 ||
                range.min[at + 1] < 1;
    if (!own_size_) preprocessing_.crop_height = range.min[at], preprocessing_.crop_width = range.min[at + 1];
  }
  if (dims[0] < 0) max_batch_ = most_of(engine_);
  for (const temper::Port& port : engine_.outputs()) outputs_.push_back(port.name);
  if (!options.names.empty()) names_ = read_names(options.names);
  check(temper_session_create(engine_.handle(), &session_));
}

Labeller::~Labeller() { temper_session_free(session_); }

std::string Labeller::name_of(int64_t index) const {
  return index >= 0 && size_t(index) < names_.size() ? names_[size_t(index)] : "";
}

temper_preprocessing Labeller::preprocessing_for(int64_t height, int64_t width) const {
  temper_preprocessing its = preprocessing_;
  if (own_size_) its.crop_height = height, its.crop_width = width, its.resize = TEMPER_STRETCH;
  return its;
}

Sample Labeller::prepare(const temper_pixels& pixels) const {
  const temper_preprocessing how = preprocessing_for(pixels.height, pixels.width);
  Sample sample;
  sample.height = pixels.height;
  sample.width = pixels.width;
  sample.dims.assign(4, 1);
  check(temper_picture_dims(engine_.handle(), 0, &how, sample.dims.data() + 1));
  sample.bytes = temper_dtype_size(engine_.inputs()[0].dtype);
  for (const int64_t dim : sample.dims) sample.bytes *= size_t(dim);
  sample.data = std::make_unique_for_overwrite<unsigned char[]>(sample.bytes);
  check(temper_picture_prepare(engine_.handle(), 0, &how, &pixels, sample.data.get(), sample.bytes));
  check(temper_picture_placement(engine_.handle(), 0, &how, pixels.height, pixels.width, &sample.placement));
  return sample;
}

std::vector<Labels> Labeller::run(const std::vector<const Sample*>& samples, bool keep_outputs) {
  std::vector<Labels> all(samples.size());
  std::vector<char> done(samples.size(), 0);
  for (size_t first = 0; first < samples.size(); ++first) {
    if (done[first]) continue;
    std::vector<size_t> which;
    for (size_t i = first; i < samples.size() && which.size() < max_batch_; ++i)
      if (!done[i] && samples[i]->dims == samples[first]->dims) which.push_back(i);
    std::vector<const Sample*> batch;
    batch.reserve(which.size());
    for (const size_t i : which) batch.push_back(samples[i]);
    std::vector<Labels> labels(batch.size());
    run_batch(batch, keep_outputs, labels);
    for (size_t i = 0; i < which.size(); ++i) {
      all[which[i]] = std::move(labels[i]);
      done[which[i]] = 1;
    }
  }
  return all;
}

void Labeller::run_batch(const std::vector<const Sample*>& samples, bool keep_outputs, std::vector<Labels>& all) {
  std::vector<int64_t> dims = samples[0]->dims;
  dims[0] = int64_t(samples.size());
  temper_tensor input = {engine_.inputs()[0].dtype, dims.size(), dims.data(), nullptr};
  check(temper_session_prepare(session_, &input, 1));
  void* memory = nullptr;
  check(temper_session_input(session_, 0, &memory));
  const size_t bytes = samples[0]->bytes;
  for (size_t i = 0; i < samples.size(); ++i)
    std::memcpy(static_cast<unsigned char*>(memory) + i * bytes, samples[i]->data.get(), bytes);
  input.data = memory;
  check(temper_session_run(session_, &input, 1));
  std::vector<std::vector<OutputRow>> rows(samples.size());  // by sample
  for (size_t o = 0; o < outputs_.size(); ++o) {
    temper_tensor output;
    check(temper_session_output(session_, o, &output));
    std::vector<int64_t> one(output.dims, output.dims + output.rank);
    if (one.empty() || one[0] != int64_t(samples.size()))
      refuse("output '" + outputs_[o] + "' is " + text_of(one) + " for " + std::to_string(samples.size()) +
             " frames; it has no row for each of them");
    one[0] = 1;
    size_t row = temper_dtype_size(output.dtype);
    for (const int64_t dim : one) row *= size_t(dim);
    for (size_t i = 0; i < samples.size(); ++i) {
      const auto* const from = static_cast<const unsigned char*>(output.data) + i * row;
      rows[i].push_back({outputs_[o], output.dtype, one, from, row});
      if (keep_outputs) all[i].outputs.push_back({outputs_[o], output.dtype, one, {from, from + row}});
    }
  }
  for (size_t i = 0; i < samples.size(); ++i) {
    all[i].batch = int64_t(samples.size());
    all[i].row = int64_t(i);
    label(*samples[i], rows[i], all[i]);
  }
}

void Labeller::label(const Sample& sample, const std::vector<OutputRow>& outputs, Labels& labels) const {
  if (options_.kind == Kind::none) return;
  const auto classes = std::find_if(outputs.begin(), outputs.end(), is_classes);
  const auto map = std::find_if(outputs.begin(), outputs.end(), is_map);
  labels.kind = options_.kind != Kind::automatic ? options_.kind
                : classes != outputs.end()       ? Kind::classes
                                                 : Kind::regions;
  if (labels.kind == Kind::classes ? classes == outputs.end() : map == outputs.end()) {
    std::string shapes;
    for (const OutputRow& output : outputs)
      shapes += (shapes.empty() ? "'" : ", '") + output.name + "' " + text_of(output.dims);
    const std::string wanted = options_.kind == Kind::classes   ? "a classifier's, [batch, classes] of floats"
                               : options_.kind == Kind::regions ? "a score map, [batch, 1, height, width] of float32"
                                                                : "a classifier's [batch, classes] or a score map "
                                                                  "[batch, 1, height, width]";
    refuse("no output is " + wanted + ": " + shapes + "; labels=none takes the outputs as they are");
  }
  if (labels.kind == Kind::classes) {
    const temper_tensor tensor = {classes->dtype, classes->dims.size(), classes->dims.data(), classes->data};
    labels.classes.resize(std::min(options_.top, size_t(classes->dims[1])));
    size_t found = 0;
    check(temper_top_classes(&tensor, 0, labels.classes.size(), labels.classes.data(), &found));
    labels.classes.resize(found);
    return;
  }
  const int64_t height = map->dims[2], width = map->dims[3];
  labels.regions = find_regions(reinterpret_cast<const float*>(map->data), height, width, options_.threshold,
                                int64_t(options_.least_pixels));
  // A map may be smaller than what the model sees; that lies in the frame as the placement says.
  const bool nchw = is_channels(engine_.inputs()[0].dims[1]);
  const double seen_height = double(sample.dims[nchw ? 2 : 1]), seen_width = double(sample.dims[nchw ? 3 : 2]);
  const temper_placement& p = sample.placement;
  for (Region& region : labels.regions) {
    const auto x = [&](double at) {
      return std::clamp(at * seen_width / double(width) * p.scale_x + p.left, 0.0, double(sample.width));
    };
    const auto y = [&](double at) {
      return std::clamp(at * seen_height / double(height) * p.scale_y + p.top, 0.0, double(sample.height));
    };
    region = {x(region.left), y(region.top), x(region.right), y(region.bottom), region.score};
  }
}

}  // namespace temper::video
