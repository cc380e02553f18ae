// SPDX-License-Identifier: Apache-2.0
#include "video/notes.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace temper::video {

namespace {

using Json = nlohmann::ordered_json;

Json json_of(const FrameId& id) {
  Json json = {{"stream", id.stream}, {"frame", id.number}};
  if (GST_CLOCK_TIME_IS_VALID(id.time)) json["time"] = double(id.time) / double(GST_SECOND);
  return json;
}

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

const char* text_of(temper_dtype dtype) {
  switch (dtype) {
    case TEMPER_F32: return "f32";
    case TEMPER_F16: return "f16";
    case TEMPER_BF16: return "bf16";
    case TEMPER_F64: return "f64";
    case TEMPER_I8: return "i8";
    case TEMPER_U8: return "u8";
    case TEMPER_I16: return "i16";
    case TEMPER_U16: return "u16";
    case TEMPER_I32: return "i32";
    case TEMPER_U32: return "u32";
    case TEMPER_I64: return "i64";
    case TEMPER_U64: return "u64";
    case TEMPER_BOOL: return "bool";
    default: return "other";
  }
}

void set_fields(GstStructure* to, const FrameId& id, const Labels& labels, const std::string& json) {
  gst_structure_set(to, "stream", G_TYPE_UINT, id.stream, "frame", G_TYPE_UINT64, guint64(id.number), "batch",
                    G_TYPE_INT64, gint64(labels.batch), "row", G_TYPE_INT64, gint64(labels.row), "json", G_TYPE_STRING,
                    json.c_str(), nullptr);
}

[[noreturn]] void fail_file(const std::string& path, const char* what, int error) {
  throw temper::Error(TEMPER_MACHINE, "'" + path + "' " + what + ": " + std::strerror(error));
}

}  // namespace

std::string json_of(const FrameId& id, const Labels& labels, const Labeller& labeller) {
  Json json = json_of(id);
  json["batch"] = labels.batch;
  json["row"] = labels.row;
  if (labels.kind == Kind::classes) {
    Json& classes = json["classes"] = Json::array();
    for (const temper_class& one : labels.classes) {
      Json entry = {{"class", one.index}, {"value", number(one.value)}, {"probability", number(one.probability)}};
      if (const std::string name = labeller.name_of(one.index); !name.empty()) entry["name"] = name;
      classes.push_back(std::move(entry));
    }
  } else if (labels.kind == Kind::regions) {
    Json& regions = json["regions"] = Json::array();
    for (const Region& one : labels.regions)
      regions.push_back({{"box", {one.left, one.top, one.right, one.bottom}}, {"score", one.score}});
  }
  return line_of(json);
}

std::string json_of_dropped(const FrameId& id, double late_seconds) {
  Json json = json_of(id);
  json["dropped"] = true;
  json["late"] = late_seconds;
  return line_of(json);
}

void register_meta() {
  static const gchar* tags[] = {nullptr};  // none: it holds whatever a filter does to the pixels
  if (!gst_meta_get_info(kMetaName)) gst_meta_register_custom(kMetaName, tags, nullptr, nullptr, nullptr);
}

GstStructure* structure_of(const FrameId& id, const Labels& labels, const std::string& json) {
  GstStructure* const made = gst_structure_new_empty(kMetaName);
  set_fields(made, id, labels, json);
  return made;
}

namespace {

GValue outputs_of(const Labels& labels) {
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_LIST);
  for (const Output& output : labels.outputs) {
    GValue dims = G_VALUE_INIT;
    g_value_init(&dims, GST_TYPE_ARRAY);
    for (const int64_t dim : output.dims) {
      GValue one = G_VALUE_INIT;
      g_value_init(&one, G_TYPE_INT64);
      g_value_set_int64(&one, dim);
      gst_value_array_append_and_take_value(&dims, &one);
    }
    GBytes* const bytes = g_bytes_new(output.bytes.data(), output.bytes.size());
    GstStructure* const its =
        gst_structure_new("output", "name", G_TYPE_STRING, output.name.c_str(), "dtype", G_TYPE_STRING,
                          text_of(output.dtype), "data", G_TYPE_BYTES, bytes, nullptr);
    g_bytes_unref(bytes);
    gst_structure_take_value(its, "dims", &dims);
    GValue entry = G_VALUE_INIT;
    g_value_init(&entry, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&entry, its);
    gst_value_list_append_and_take_value(&list, &entry);
  }
  return list;
}

}  // namespace

void attach(GstBuffer* buffer, const FrameId& id, const Labels& labels, const std::string& json, bool outputs) {
  GstCustomMeta* const meta = gst_buffer_add_custom_meta(buffer, kMetaName);
  GstStructure* const to = gst_custom_meta_get_structure(meta);
  set_fields(to, id, labels, json);
  if (outputs) {
    GValue list = outputs_of(labels);
    gst_structure_take_value(to, "outputs", &list);
  }
  for (const Region& one : labels.regions) {
    const guint left = guint(one.left), top = guint(one.top);
    GstVideoRegionOfInterestMeta* const region = gst_buffer_add_video_region_of_interest_meta(
        buffer, "region", left, top, guint(std::ceil(one.right)) - left, guint(std::ceil(one.bottom)) - top);
    gst_video_region_of_interest_meta_add_param(
        region, gst_structure_new("detection", "confidence", G_TYPE_DOUBLE, one.score, nullptr));
  }
}

void draw(GstBuffer* buffer, const GstVideoInfo& info, const Labels& labels) {
  if (labels.regions.empty()) return;
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &info, buffer, GST_MAP_READWRITE))
    throw temper::Error(TEMPER_MACHINE, "a frame cannot be written to, so nothing is drawn into it");
  const int width = GST_VIDEO_FRAME_WIDTH(&frame), height = GST_VIDEO_FRAME_HEIGHT(&frame);
  const int stride = GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0), channels = GST_VIDEO_FRAME_COMP_PSTRIDE(&frame, 0);
  auto* const pixels = static_cast<unsigned char*>(GST_VIDEO_FRAME_PLANE_DATA(&frame, 0));
  const auto fill = [&](int left, int top, int right, int bottom) {
    left = std::max(left, 0), top = std::max(top, 0), right = std::min(right, width), bottom = std::min(bottom, height);
    for (int y = top; y < bottom; ++y)
      if (left < right)
        std::memset(pixels + ptrdiff_t(y) * stride + ptrdiff_t(left) * channels, 255, size_t(right - left) * channels);
  };
  for (const Region& one : labels.regions) {
    const int left = int(one.left), top = int(one.top);
    const int right = int(std::ceil(one.right)), bottom = int(std::ceil(one.bottom));
    fill(left, top, right, top + 2), fill(left, bottom - 2, right, bottom);
    fill(left, top, left + 2, bottom), fill(right - 2, top, right, bottom);
  }
  gst_video_frame_unmap(&frame);
}

JsonLines::~JsonLines() {
  if (file_) std::fclose(file_);
}

void JsonLines::open(const std::string& path) {
  path_ = path;
  struct stat status = {};
  if (stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    std::FILE* const old = std::fopen(path.c_str(), "rb");
    if (!old) fail_file(path, "cannot be read", errno);
    char start[10] = {};
    const size_t count = std::fread(start, 1, 10, old);
    std::fclose(old);
    if (std::string(start, count) != "{\"stream\":")
      throw temper::Error(TEMPER_USAGE, "'" + path + "' is there and holds no labels of frames; it is not replaced");
  }
  file_ = std::fopen(path.c_str(), "wb");
  if (!file_) fail_file(path, "cannot be written", errno);
}

void JsonLines::write(const std::string& line) {
  if (!file_) return;
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size() || std::fputc('\n', file_) == EOF ||
      std::fflush(file_) != 0)
    fail_file(path_, "cannot be written", errno);
}

void JsonLines::close() {
  std::FILE* const file = file_;
  file_ = nullptr;
  if (file && std::fclose(file) != 0) fail_file(path_, "cannot be written", errno);
}

}  // namespace temper::video
