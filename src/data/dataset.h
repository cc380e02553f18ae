// SPDX-License-Identifier: Apache-2.0
// The one way in for real data: --data and --input of every verb. What a path may be:
//   a folder of pictures (JPEG, PNG, WebP, BMP, TIFF, PNM); with sub-folders, each is a class and its pictures have
//   that label; one picture; .npy (first axis = sample); .npz (one array per input name, "labels" = truth); .csv (one
//   sample a row, see csv.h); .pb (one serialized ONNX TensorProto, first axis = sample).
// Arrays stay where they are (.npy is memory-mapped) and pictures are decoded batch by batch.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/preprocess.h"
#include "graph/tensor.h"

namespace temper {

struct InputSpec {
  std::string name;
  TensorType type;     // the first axis is the batch; it and others may be symbolic
  bool whole = false;  // instead, a state: its file is one value, and none means zeros, with 1 for open dimensions
  // How its pictures are prepared where the options do not say otherwise, as parse_preprocess reads it; "": nothing
  // remembers it. `remembered_by`: who does ("the plan").
  std::string preprocess, remembered_by;
};

struct DatasetOptions {
  PreprocessOptions preprocess;
  std::string label_column;              // of .csv, see csv.h
  std::vector<std::string> class_names;  // gives class folders their numbers by name
  // Inputs that no file covers are filled with random numbers (graph/random.h) from this seed if `fill_missing`;
  // otherwise they are an error.
  bool fill_missing = false;
  uint64_t seed = 0;
  int64_t memory_limit = -1;  // bytes that an .npz may unpack to; -1: see npz.h
};

// A sample whose picture cannot be read, and why.
struct Unreadable {
  int64_t sample = 0;
  std::string name;  // as in Batch::names
  Error error;       // names the path
};

struct Batch {
  int64_t count = 0;
  std::vector<int64_t> samples;  // their numbers in the dataset
  std::vector<Tensor>
      inputs;  // in the order of the model's inputs, [count, ...]; an input without a sample axis as it is
  std::vector<int64_t> labels;     // count of them, or none
  std::vector<std::string> names;  // of the samples: the picture's path below the folder, or the sample's number
  // For samples of token ids, count times the positions: whether a token stands there, and no filling. Else none.
  std::vector<char> is_token;
  std::vector<uint64_t>
      hashes;  // XXH3 of the sample's input bytes: the same content has the same hash whatever file it came in
};

class Dataset {
 public:
  int64_t size() const { return size_; }
  bool has_labels() const { return !labels_.empty(); }
  const std::vector<int64_t>& labels() const { return labels_; }
  // The class folders' names or those of the options, by class number; empty where neither is there.
  const std::vector<std::string>& class_names() const { return class_names_; }
  const std::vector<std::string>& filled() const { return filled_; }  // names of the inputs that are random
  // False for an input that goes into every batch as it is, because it has no sample axis.
  bool has_samples(size_t input) const { return columns_[input].per_sample; }
  // For the inputs that are pictures: all that was done to them, for those who remember it.
  std::map<std::string, std::string> preprocess() const;
  int token_input() const { return token_input_; }   // the input that takes token ids; -1: none
  const std::string& text() const { return text_; }  // "100 pictures in 10 classes, short side to 256 ..."

  // Throws Error{usage} outside [0, size()], Error{bad_file} that names the picture which cannot be read.
  Batch batch(int64_t first, int64_t count) const;
  // Decodes the pictures of these samples: those that are missing, damaged or of a kind that is not read, in the order
  // of `samples`. None where the data is no pictures.
  std::vector<Unreadable> unreadable(std::span<const int64_t> samples) const;

 private:
  friend class DatasetOpener;
  // One model input. Exactly one of array, pictures, random is its source.
  struct Column {
    InputSpec spec;
    Tensor array;
    std::vector<std::string> pictures;
    Preprocess preprocess;
    bool random = false;
    bool per_sample = true;  // false: the array has no sample axis and goes into every batch as it is
  };
  void fill(const Column& column, int64_t first, int64_t count, Batch& out) const;

  int64_t size_ = 0;
  uint64_t seed_ = 0;
  std::vector<Column> columns_;
  std::vector<int64_t> labels_;
  int token_input_ = -1;
  std::vector<char> is_token_;  // as in Batch, of all samples
  std::vector<std::string> names_, class_names_, filled_;
  std::string text_;
};

// How the pictures of an input are prepared: as asked, then as it remembers, then by its type. A warning where what is
// asked is not what is remembered. Throws as complete_preprocess and parse_preprocess do.
Preprocess complete_remembered(const PreprocessOptions& asked, const InputSpec& spec);

// One path for all inputs (--data). Throws Error{usage} for data that does not fit the model, with the list of what it
// takes, and Error{bad_file} for what cannot be read.
Dataset open_dataset(const std::string& path, const std::vector<InputSpec>& inputs, const DatasetOptions& options = {});

// Arrays in memory, by input name; "labels", where no input has that name, is the truth. The same as an .npz that holds
// them, but what is no input is refused with Error{usage}.
Dataset open_arrays(std::map<std::string, Tensor> arrays, const std::vector<InputSpec>& inputs,
                    const DatasetOptions& options = {});

// One path per input (--input NAME=FILE); the name may be empty where the model has one input. With no file at all and
// options.fill_missing, the size is the fixed batch of the model, or 1.
using InputFiles = std::vector<std::pair<std::string, std::string>>;
// From "NAME=FILE", or "FILE" with an empty name. What stands before a '=' is a name where the model has such an input,
// or where the whole argument is no file; a path may hold '=' too.
InputFiles parse_input_files(const std::vector<std::string>& arguments, const std::vector<InputSpec>& inputs);
Dataset open_input_files(const InputFiles& files, const std::vector<InputSpec>& inputs,
                         const DatasetOptions& options = {});

std::string first_of(std::span<const std::string> names);  // "a, b, c and 4 more": the first three

std::string list_inputs(const std::vector<InputSpec>& inputs);  // "x f32[batch,3,224,224], mask bool[batch]"

}  // namespace temper
