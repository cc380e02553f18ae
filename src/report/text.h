// SPDX-License-Identifier: Apache-2.0
// Words for numbers and names, shared by tables and figures.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace temper {

struct BenchRun;

// At most `most` characters: the head and the tail stay, since names of layers differ at their ends.
std::string shortened(const std::string& text, size_t most);
// A label of labels_of: the name of the model gives way, and what tells the runs apart stays.
std::string shortened_label(const std::string& label, size_t most);
std::string file_name_of(const std::string& path);  // "dir/resnet50.onnx" -> "resnet50.onnx"

// Text with absolute paths cut to their file names: whose machine something lay on is nobody's business.
std::string without_folders(std::string_view text);

// The value or, without one, the note of that field of the run: "n/a (needs ≥ 459 samples)". Values that a note marks
// as odd ("max of 29") carry it.
std::string shown(const BenchRun& run, const std::optional<double>& value, const std::string& field);
std::string shown_bytes(const BenchRun& run, const std::optional<int64_t>& value, const std::string& field);
std::string whole(double value);  // "500", "0.25": without zeros behind

}  // namespace temper
