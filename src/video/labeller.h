// SPDX-License-Identifier: Apache-2.0
// Turns frames into labels: a plan, a session of it, and what is read out of its outputs. It knows no GStreamer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "temper/temper.h"
#include "video/regions.h"

namespace temper::video {

enum class Kind {
  automatic,  // classes or regions, by the shapes of the outputs
  classes,    // the best of an output [batch, classes]
  regions,    // boxes around what an output [batch, 1, height, width] shows
  none,       // the outputs alone
};

struct LabellerOptions {
  std::string plan;   // a file
  std::string names;  // of the classes, a text file, one a line; "": none
  Kind kind = Kind::automatic;
  size_t top = 5;          // classes of a frame
  double threshold = 0.3;  // of a score map
  size_t least_pixels = 4;
};

// A sample of one frame, as the plan takes it.
struct Sample {
  std::vector<int64_t> dims;  // of the batch: the first is 1
  std::unique_ptr<unsigned char[]> data;
  size_t bytes = 0;
  temper_placement placement = {};
  int64_t height = 0, width = 0;  // of the frame
};

struct Output {
  std::string name;
  temper_dtype dtype;
  std::vector<int64_t> dims;  // the first is 1
  std::vector<unsigned char> bytes;
};

// The same, where the session holds it.
struct OutputRow {
  const std::string& name;
  temper_dtype dtype;
  std::vector<int64_t> dims;
  const unsigned char* data;
  size_t bytes;
};

struct Labels {
  Kind kind = Kind::none;
  std::vector<temper_class> classes;
  std::vector<Region> regions;  // in pixels of the frame, within it
  int64_t batch = 0, row = 0;   // of the run that answered: such a run elsewhere gives the same bits
  std::vector<Output> outputs;  // where they are kept
};

class Labeller {
 public:
  // Throws Error for a plan that cannot be used here, or whose input takes no pictures, and for names that cannot be
  // read.
  explicit Labeller(const LabellerOptions& options);
  ~Labeller();
  Labeller(const Labeller&) = delete;
  Labeller& operator=(const Labeller&) = delete;

  // "" where the class has none.
  std::string name_of(int64_t index) const;
  // The most frames that one run takes; 1 where the plan takes no more, or its samples are not known to be independent.
  size_t max_batch() const { return max_batch_; }

  // Several threads may prepare frames while another one runs. Throws Error.
  Sample prepare(const temper_pixels& pixels) const;
  // Labels of all samples, in runs of samples of the same dimensions; with the outputs, if they are to be kept. One
  // thread at a time. Throws Error.
  std::vector<Labels> run(const std::vector<const Sample*>& samples, bool keep_outputs);

 private:
  LabellerOptions options_;
  temper::Engine engine_;
  std::vector<std::string> names_, outputs_;
  size_t max_batch_ = 1;
  bool own_size_ = false;               // frames are taken in their own size
  temper_preprocessing preprocessing_;  // what the plan leaves open and its shapes fix
  temper_session* session_ = nullptr;

  temper_preprocessing preprocessing_for(int64_t height, int64_t width) const;
  void run_batch(const std::vector<const Sample*>& samples, bool keep_outputs, std::vector<Labels>& all);
  void label(const Sample& sample, const std::vector<OutputRow>& outputs, Labels& labels) const;
};

}  // namespace temper::video
