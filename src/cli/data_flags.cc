// SPDX-License-Identifier: Apache-2.0
#include "cli/data_flags.h"

#include <cmath>
#include <map>

#include "base/parse.h"
#include "data/carried.h"
#include "data/labels.h"

namespace temper::cli {
namespace {

template <class T>
T number(std::string_view text, std::string_view flag) {
  const auto value = parse_number<T>(text);
  if (!value) fail(ErrorKind::usage, flag, " needs a number, not '", text, "'");
  return *value;
}

// "1/255", "0.5"
double fraction(std::string_view text, std::string_view flag) {
  const auto slash = text.find('/');
  const double value = slash == std::string::npos
                           ? number<double>(text, flag)
                           : number<double>(text.substr(0, slash), flag) / number<double>(text.substr(slash + 1), flag);
  if (!std::isfinite(value)) fail(ErrorKind::usage, flag, " needs a number, not '", text, "'");
  return value;
}

std::vector<double> fractions(const std::vector<std::string>& texts, std::string_view flag) {
  std::vector<double> values;
  values.reserve(texts.size());
  for (const std::string& text : texts) values.push_back(fraction(text, flag));
  return values;
}

}  // namespace

void DataFlags::add_to(Command& verb) {
  const char* group = kGroup;
  verb.add_option("--preprocess", preprocess,
                  concat("pictures: how they become inputs, where the plan, the ranges or the model do not say it, or "
                         "say something else: ",
                         kPresets, ", or a preprocessor_config.json of transformers or config.json of timm"))
      .group(group);
  verb.add_option("--fit", fit,
                  "pictures: how they come to the size of the input: crop (the middle), stretch, or letterbox (whole, "
                  "on a plain ground)")
      .check(one_of({"crop", "stretch", "letterbox"}))
      .group(group);
  verb.add_option("--pad", pad, "pictures: value of the pixels around a letterboxed picture, 0 to 255; 114 by default")
      .check(whole_number(0, 255))
      .group(group);
  verb.add_option("--resize", resize,
                  "pictures: length of the short side in pixels before the crop; 0 stretches the picture to the size "
                  "of the crop")
      .group(group);
  verb.add_option("--crop", crop,
                  "pictures: size that the model gets, N or HEIGHTxWIDTH, if the model's input leaves it open")
      .group(group);
  verb.add_option("--mean", mean, "pictures: mean to subtract after scaling; one value or R,G,B")
      .delimiter(',')
      .group(group);
  verb.add_option(
          "--std", std,
          "pictures: standard deviation to divide by after that; one value or R,G,B; fractions like 1/255 are allowed")
      .delimiter(',')
      .group(group);
  verb.add_option("--scale", scale, "pictures: factor that each pixel is multiplied by; 1/255 by default").group(group);
  verb.add_flag("--bgr", bgr, "pictures: give the model the channels as blue, green, red").group(group);
  verb.add_option("--layout", layout,
                  "pictures: order of the model's axes, nchw or nhwc, if the input's shape leaves it open")
      .check(one_of({"nchw", "nhwc"}))
      .group(group);
  verb.add_option("--filter", filter, "pictures: filter for resizing, bilinear (default) or bicubic")
      .check(one_of({"bilinear", "bicubic"}))
      .group(group);
  verb.add_option("--label-column", label_column,
                  "CSV: column that holds the label: first, last, none, or a name in the header; 'label' by default")
      .group(group);
  verb.add_option("--class-names", class_names, "text file with the names of the classes, one a line").group(group);
  if (!verb.has_option("--strict")) verb.add_flag("--strict", strict, kStrict).group(group);
}

DatasetOptions DataFlags::options(int64_t memory_limit) const {
  DatasetOptions options;
  options.memory_limit = memory_limit;
  options.preprocess = pictures();
  options.label_column = label_column;
  if (!class_names.empty()) options.class_names = read_class_names(class_names);
  return options;
}

PreprocessOptions DataFlags::pictures() const {
  PreprocessOptions p;
  if (!fit.empty())
    p.fit = fit == "crop" ? PictureFit::crop : fit == "stretch" ? PictureFit::stretch : PictureFit::letterbox;
  p.pad = int(pad);
  p.resize = resize;
  if (resize < -1) fail(ErrorKind::usage, "--resize needs a number of pixels, or 0");
  if (!crop.empty()) {
    const auto x = crop.find('x');
    p.crop_height = number<int64_t>(std::string_view(crop).substr(0, x), "--crop");
    p.crop_width =
        x == std::string::npos ? p.crop_height : number<int64_t>(std::string_view(crop).substr(x + 1), "--crop");
    if (p.crop_height < 1 || p.crop_width < 1)
      fail(ErrorKind::usage, "--crop needs N or HEIGHTxWIDTH, not '", crop, "'");
  }
  p.mean = fractions(mean, "--mean");
  p.std = fractions(std, "--std");
  if (!scale.empty()) p.scale = fraction(scale, "--scale");
  if (p.scale == 0) fail(ErrorKind::usage, "--scale needs a factor other than zero, not '", scale, "'");
  if (bgr) p.channels = ChannelOrder::bgr;
  if (!layout.empty()) p.layout = layout == "nchw" ? PixelLayout::nchw : PixelLayout::nhwc;
  if (!filter.empty()) p.filter = filter == "bicubic" ? ResizeFilter::bicubic : ResizeFilter::bilinear;
  return preprocess.empty() ? p : over(named_preprocess(preprocess), p);
}

void add_input_flag(Command& verb, std::vector<std::string>& inputs, const std::string& others) {
  verb.add_option("--input", inputs,
                  concat("file for an input, written NAME=FILE: .npy, .npz, .pb, .csv, a picture or a folder of "
                         "pictures; NAME= may be left out if the model has one input",
                         others))
      .type_size(1)
      .allow_extra_args(false);
}

void add_state_flag(Command& verb, std::vector<std::string>& states) {
  verb.add_option("--state", states,
                  "output that is an input of the next run, written INPUT=OUTPUT: it is kept where it lies, and begins "
                  "with zeros, or with --input")
      .type_size(1)
      .allow_extra_args(false);
}

std::vector<std::string> input_paths(const std::vector<std::string>& arguments) {
  std::vector<std::string> paths;
  for (const std::string& input : arguments) {
    paths.push_back(input);
    for (size_t at = input.find('='); at != input.npos; at = input.find('=', at + 1))
      paths.push_back(input.substr(at + 1));
  }
  return paths;
}

DataRequest DataFlags::request(const std::string& path, int64_t samples, uint64_t seed, int64_t memory_limit) const {
  return {path, {}, options(memory_limit), samples, seed, strict};
}

std::vector<std::string> output_file_names(const std::vector<std::string>& outputs) {
  std::vector<std::string> files;
  std::map<std::string, std::string> taken;
  for (const std::string& output : outputs) {
    std::string file = output;
    for (char& c : file) {
      const bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
                        c == '_' || c == '-';
      if (!kept) c = '_';
    }
    if (const auto [other, fresh] = taken.emplace(file, output); !fresh)
      fail(ErrorKind::unsupported, "the outputs '", other->second, "' and '", output, "' would both be written to '",
           file, ".npy'; rename one in the model");
    files.push_back(file + ".npy");
  }
  return files;
}

}  // namespace temper::cli
