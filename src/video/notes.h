// SPDX-License-Identifier: Apache-2.0
// Labels as others read them: a line of JSON, metadata of a buffer, boxes drawn into a frame.
#pragma once
#include <gst/gst.h>
#include <gst/video/video.h>

#include <cstdio>
#include <string>

#include "video/labeller.h"

namespace temper::video {

// Which frame it is.
struct FrameId {
  unsigned stream = 0;
  uint64_t number = 0;                      // from 0 on, dropped ones counted
  GstClockTime time = GST_CLOCK_TIME_NONE;  // of its stream
};

// {"stream": 0, "frame": 12, "time": 0.4, "batch": 1, "row": 0, "classes": [...]}, and `regions` in the place of
// `classes`; class entries are those of `temper run --json`.
std::string json_of(const FrameId& id, const Labels& labels, const Labeller& labeller);
// {"stream": 0, "frame": 12, "time": 0.4, "dropped": true, "late": 0.02}
std::string json_of_dropped(const FrameId& id, double late_seconds);

constexpr const char* kMetaName = "TemperLabels";
// For the whole process, once.
void register_meta();
// Attaches TemperLabels, whose structure has stream, frame, batch, row, the line `json`, and with `outputs` each output
// as a structure (name, dtype, dims, data) in the list `outputs`; and a region of interest for each box. `buffer` is
// writable.
void attach(GstBuffer* buffer, const FrameId& id, const Labels& labels, const std::string& json, bool outputs);
// The same as the structure of a message, without outputs.
GstStructure* structure_of(const FrameId& id, const Labels& labels, const std::string& json);

// Outlines, two pixels wide, in the brightest value of each channel. Throws Error where the frame cannot be written.
void draw(GstBuffer* buffer, const GstVideoInfo& info, const Labels& labels);

// A file of one line for each frame, written as they come.
class JsonLines {
 public:
  JsonLines() = default;
  ~JsonLines();
  JsonLines(const JsonLines&) = delete;
  JsonLines& operator=(const JsonLines&) = delete;
  // A file that is there is replaced if it holds such lines or nothing. Throws Error.
  void open(const std::string& path);
  // Throws Error{TEMPER_MACHINE}, as on a full disk. Without an open file: nothing.
  void write(const std::string& line);
  void close();  // throws as write does

 private:
  std::string path_;
  std::FILE* file_ = nullptr;
};

}  // namespace temper::video
