// SPDX-License-Identifier: Apache-2.0
// Tells the kind of a file by its first and last bytes, so that nothing is written over a file of another kind.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace temper {

enum class FileKind {
  other,     // none of those below: a text, a picture, somebody's JSON, what is no regular file, what cannot be read
  nothing,   // no such file, or one that holds nothing (no bytes, or zeros alone, as after a crash)
  onnx,      // an ONNX model of another program
  our_onnx,  // one that Temper wrote or exported
  plan,
  ranges,
  timings,  // also one that was cut off or damaged behind its beginning
  result,
  scaling,  // of several devices
  profile,
  explanation,
  study,
  step,               // of a study
  calibration_cache,  // TensorRT's
  page,
  csv,       // with a header that Temper writes; other CSV files are `other`
  junit,     // the XML of `temper gate`
  markdown,  // tables, or sections as Temper writes them; what begins with a title of its own is `other`
  svg,
  png,
  npy,
  graph,  // the text of a graph
  cubin,  // a compiled GPU kernel with its log
};

// The first bytes of a plan.
inline constexpr std::array<unsigned char, 8> kPlanMagic{0x89, 'T', 'M', 'P', 'R', '\r', '\n', 0x1a};

// Through symbolic links. Never throws: what cannot be read is `other`.
FileKind kind_of_file(const std::string& path);
std::string_view words_of(FileKind kind);  // "a plan"

}  // namespace temper
