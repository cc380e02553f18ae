// SPDX-License-Identifier: Apache-2.0
// Reads how pictures become inputs from where models, files and names say it: presets, the configurations that
// transformers and timm write beside a model, and the metadata inside of one.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/batches.h"
#include "onnx/import.h"

namespace temper {

constexpr std::string_view kPreprocessKey = "temper.preprocess";  // in a model's metadata: parse_preprocess reads it
constexpr const char* kPresets = "imagenet, unit, none, tf, caffe, clip or yolo";
std::vector<std::string_view> preset_names();  // the same, one by one

// A preset (kPresets), words as parse_preprocess reads them, or the path of a JSON file: transformers'
// preprocessor_config.json or timm's config.json. Throws Error{usage} for anything else, Error{bad_file} for a damaged
// file and Error{unsupported} for what such a file says and Temper does not do.
PreprocessOptions named_preprocess(const std::string& what);

// Reads a configuration's text. `name` is what errors call it.
PreprocessOptions preprocess_from_json(std::string_view text, const std::string& name);

// A model's own word on the pictures that its one input for them takes, by that input's name; empty where it says
// nothing, or has several such inputs. In this order: its metadata (kPreprocessKey, Ultralytics', and ONNX's own for
// pictures), then preprocessor_config.json or timm's config.json in the folder of `path`, or, where that folder is
// called onnx, in the one above. A file that cannot be used is a warning.
std::map<std::string, std::string> carried_preprocess(const ImportedModel& model, const std::string& path);

// Floats or u8, [batch, channels, height, width] or [batch, height, width, channels] with 1 or 3 channels.
bool takes_pictures(const TensorType& type);
// The input that takes pictures; "" where none or several do.
std::string picture_input(const Graph& graph);

// The inputs of a model, with what it carries.
std::vector<InputSpec> input_specs(const ImportedModel& model, const std::string& path);
// `from` remembers these of the inputs that are named.
void remember(std::vector<InputSpec>& inputs, const std::map<std::string, std::string>& preprocess,
              const std::string& from);
// Dimensions that shapes fix are fixed in what the data have to be; the first axis counts samples and stays.
void fix_sizes(std::vector<InputSpec>& inputs, const std::map<std::string, ShapeRange>& shapes);

}  // namespace temper
