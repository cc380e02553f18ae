// SPDX-License-Identifier: Apache-2.0
#include "video/element.h"

#include <gst/video/video.h>

#include <list>
#include <memory>
#include <string>

#include "video/batcher.h"
#include "video/labeller.h"
#include "video/notes.h"

GST_DEBUG_CATEGORY_STATIC(temper_infer_debug);
#define GST_CAT_DEFAULT temper_infer_debug

using temper::video::Batcher;
using temper::video::FrameId;
using temper::video::JsonLines;
using temper::video::Kind;
using temper::video::Labeller;
using temper::video::LabellerOptions;
using temper::video::Labels;
using temper::video::Sample;
using temper::video::Seat;

namespace {

#define FRAMES "video/x-raw, format = (string) { RGB, BGR, GRAY8 }, width = [1, MAX], height = [1, MAX]"
GstStaticPadTemplate sink_template =
    GST_STATIC_PAD_TEMPLATE("sink_%u", GST_PAD_SINK, GST_PAD_REQUEST, GST_STATIC_CAPS(FRAMES));
GstStaticPadTemplate src_template =
    GST_STATIC_PAD_TEMPLATE("src_%u", GST_PAD_SRC, GST_PAD_SOMETIMES, GST_STATIC_CAPS(FRAMES));

enum Property : guint {
  kPlan = 1,
  kNames,
  kLabels,
  kTop,
  kThreshold,
  kLeastPixels,
  kFrames,
  kMaxWait,
  kQos,
  kJson,
  kPostMessages,
  kDraw,
  kOutputs,
  kProcessed,
  kDropped
};

struct Stream {
  guint index = 0;
  GstPad *sink = nullptr, *src = nullptr;
  Seat seat;
  // Of the thread that brings frames.
  GstVideoInfo info = {};
  bool has_info = false;
  GstSegment segment = {};
  uint64_t frames = 0;
  std::vector<GstBuffer*> held;  // that wait for the rest of their batch
  std::vector<Sample> samples;
  std::vector<FrameId> ids;
  // Under the object's lock: what the sink said of being late.
  GstClockTime earliest = GST_CLOCK_TIME_NONE;
  gdouble proportion = 1;
  uint64_t processed = 0, dropped = 0;
};

struct Settings {
  LabellerOptions labeller;
  std::string json;
  guint frames = 1;
  gint max_wait = 40;  // ms; -1: as long as it takes
  bool qos = true, post_messages = false, draw = false, outputs = false;
};

}  // namespace

struct _TemperInfer {
  GstElement parent;
  struct State* state;
};

struct State {
  Settings settings;          // under the object's lock
  std::list<Stream> streams;  // the list under the object's lock
  std::unique_ptr<Labeller> labeller;
  std::unique_ptr<Batcher> batcher;
  std::mutex json_mutex;
  JsonLines json;
};

G_DEFINE_TYPE(TemperInfer, temper_infer, GST_TYPE_ELEMENT)

namespace {

Stream& stream_of(GstPad* pad) { return *static_cast<Stream*>(gst_pad_get_element_private(pad)); }

void post_error(TemperInfer* self, temper_status status, const std::string& text) {
  switch (status) {
    case TEMPER_BAD_FILE: GST_ELEMENT_ERROR(self, RESOURCE, READ, ("%s", text.c_str()), (nullptr)); break;
    case TEMPER_MACHINE: GST_ELEMENT_ERROR(self, RESOURCE, FAILED, ("%s", text.c_str()), (nullptr)); break;
    default: GST_ELEMENT_ERROR(self, LIBRARY, SETTINGS, ("%s", text.c_str()), (nullptr));
  }
}

// Runs `body`; what it throws becomes an error of the element.
template <class Body>
bool guarded(TemperInfer* self, Body&& body) {
  try {
    body();
    return true;
  } catch (const temper::Error& error) {
    post_error(self, error.status(), error.what());
  } catch (const std::bad_alloc&) { post_error(self, TEMPER_MACHINE, "out of memory"); }
  return false;
}

Settings settings_of(TemperInfer* self) {
  GST_OBJECT_LOCK(self);
  Settings settings = self->state->settings;
  GST_OBJECT_UNLOCK(self);
  return settings;
}

void let_go(Stream& stream) {
  for (GstBuffer* const buffer : stream.held) gst_buffer_unref(buffer);
  stream.held.clear();
  stream.samples.clear();
  stream.ids.clear();
}

void write_line(TemperInfer* self, const std::string& line) {
  const std::lock_guard lock(self->state->json_mutex);
  self->state->json.write(line);
}

// Whether the sink has shown a later frame already. Says so, by the name of the frame.
bool drop_late(TemperInfer* self, Stream& stream, GstBuffer* buffer, const FrameId& id) {
  if (!GST_BUFFER_PTS_IS_VALID(buffer) || stream.segment.format != GST_FORMAT_TIME) return false;
  const GstClockTime running = gst_segment_to_running_time(&stream.segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer));
  GST_OBJECT_LOCK(self);
  const GstClockTime earliest = stream.earliest;
  const gdouble proportion = stream.proportion;
  const bool late = self->state->settings.qos && GST_CLOCK_TIME_IS_VALID(running) &&
                    GST_CLOCK_TIME_IS_VALID(earliest) && running <= earliest;
  stream.dropped += late;
  const uint64_t processed = stream.processed, dropped = stream.dropped;
  GST_OBJECT_UNLOCK(self);
  if (!late) return false;
  const GstClockTimeDiff jitter = GST_CLOCK_DIFF(running, earliest);
  GstMessage* const message =
      gst_message_new_qos(GST_OBJECT(stream.src), FALSE, running,
                          gst_segment_to_stream_time(&stream.segment, GST_FORMAT_TIME, GST_BUFFER_PTS(buffer)),
                          GST_BUFFER_PTS(buffer), GST_BUFFER_DURATION(buffer));
  gst_message_set_qos_values(message, jitter, proportion, 1000000);
  gst_message_set_qos_stats(message, GST_FORMAT_BUFFERS, processed, dropped);
  gst_element_post_message(GST_ELEMENT(self), message);
  write_line(self, temper::video::json_of_dropped(id, double(jitter) / double(GST_SECOND)));
  return true;
}

Sample sample_of(TemperInfer* self, const Stream& stream, GstBuffer* buffer) {
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &stream.info, buffer, GST_MAP_READ))
    throw temper::Error(TEMPER_USAGE,
                        "a frame does not hold what its caps say: " + std::to_string(gst_buffer_get_size(buffer)) +
                            " bytes for " + std::to_string(GST_VIDEO_INFO_SIZE(&stream.info)));
  const std::unique_ptr<GstVideoFrame, void (*)(GstVideoFrame*)> mapped(&frame, gst_video_frame_unmap);
  const GstVideoFormat format = GST_VIDEO_FRAME_FORMAT(&frame);
  const temper_pixels pixels = {GST_VIDEO_FRAME_PLANE_DATA(&frame, 0),   GST_VIDEO_FRAME_HEIGHT(&frame),
                                GST_VIDEO_FRAME_WIDTH(&frame),           format == GST_VIDEO_FORMAT_GRAY8 ? 1 : 3,
                                GST_VIDEO_FRAME_PLANE_STRIDE(&frame, 0), format == GST_VIDEO_FORMAT_BGR};
  return self->state->labeller->prepare(pixels);
}

// Sends a frame on, with its labels. Takes the buffer.
GstFlowReturn send(TemperInfer* self, Stream& stream, GstBuffer* buffer, const FrameId& id, const Labels& labels,
                   const Settings& settings) {
  buffer = gst_buffer_make_writable(buffer);
  const bool done = guarded(self, [&] {
    const std::string json = temper::video::json_of(id, labels, *self->state->labeller);
    write_line(self, json);
    if (settings.draw) {
      if (labels.kind != Kind::regions)
        throw temper::Error(TEMPER_USAGE,
                            "draw=true draws boxes, and these labels have none (labels=regions has them)");
      temper::video::draw(buffer, stream.info, labels);
    }
    temper::video::attach(buffer, id, labels, json, settings.outputs);
    if (settings.post_messages)
      gst_element_post_message(
          GST_ELEMENT(self), gst_message_new_element(GST_OBJECT(self), temper::video::structure_of(id, labels, json)));
  });
  if (!done) {
    gst_buffer_unref(buffer);
    return GST_FLOW_ERROR;
  }
  GST_OBJECT_LOCK(self);
  ++stream.processed;
  GST_OBJECT_UNLOCK(self);
  return gst_pad_push(stream.src, buffer);
}

// Labels the frames that are held, as many as there are, and sends them on.
GstFlowReturn finish(TemperInfer* self, Stream& stream) {
  if (stream.held.empty()) return GST_FLOW_OK;
  GstFlowReturn flow = GST_FLOW_FLUSHING;
  const bool done = guarded(self, [&] {
    const auto labels = self->state->batcher->label(stream.seat, stream.samples);
    if (!labels) return;
    const Settings settings = settings_of(self);
    flow = GST_FLOW_OK;
    for (size_t i = 0; i < stream.held.size() && flow == GST_FLOW_OK; ++i)
      flow = send(self, stream, std::exchange(stream.held[i], nullptr), stream.ids[i], (*labels)[i], settings);
  });
  stream.held.erase(std::remove(stream.held.begin(), stream.held.end(), nullptr), stream.held.end());
  let_go(stream);
  return done ? flow : GST_FLOW_ERROR;
}

GstFlowReturn chain(GstPad* pad, GstObject* parent, GstBuffer* buffer) {
  TemperInfer* const self = TEMPER_INFER(parent);
  Stream& stream = stream_of(pad);
  const std::unique_ptr<GstBuffer, void (*)(GstBuffer*)> owned(buffer, [](GstBuffer* its) { gst_buffer_unref(its); });
  if (!stream.has_info) {
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("frames come before their caps"), (nullptr));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  const FrameId id = {stream.index, stream.frames++, GST_BUFFER_PTS(buffer)};
  bool dropped = false;
  const bool done = guarded(self, [&] {
    dropped = drop_late(self, stream, buffer, id);
    if (dropped) return;
    stream.samples.push_back(sample_of(self, stream, buffer));
    stream.ids.push_back(id);
    stream.held.push_back(gst_buffer_ref(buffer));
  });
  if (!done) return GST_FLOW_ERROR;
  return dropped || stream.held.size() < settings_of(self).frames ? GST_FLOW_OK : finish(self, stream);
}

bool take_caps(TemperInfer* self, Stream& stream, GstCaps* caps) {
  stream.has_info = gst_video_info_from_caps(&stream.info, caps);
  if (!stream.has_info) {
    gchar* const text = gst_caps_to_string(caps);
    GST_ELEMENT_ERROR(self, STREAM, FORMAT, ("frames of %s are not taken; put videoconvert before temperinfer", text),
                      (nullptr));
    g_free(text);
  }
  return stream.has_info;
}

gboolean sink_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  TemperInfer* const self = TEMPER_INFER(parent);
  Stream& stream = stream_of(pad);
  Batcher& batcher = *self->state->batcher;
  const GstEventType type = GST_EVENT_TYPE(event);
  // What comes behind frames stays behind them.
  if ((gst_event_type_get_flags(type) & GST_EVENT_TYPE_SERIALIZED) && type != GST_EVENT_FLUSH_STOP) {
    const GstFlowReturn flow = finish(self, stream);
    if (flow < GST_FLOW_EOS) GST_DEBUG_OBJECT(pad, "held frames: %s", gst_flow_get_name(flow));
  }
  switch (type) {
    case GST_EVENT_FLUSH_START: batcher.set_flushing(stream.seat, true); break;
    case GST_EVENT_FLUSH_STOP:
      let_go(stream);
      gst_segment_init(&stream.segment, GST_FORMAT_UNDEFINED);
      GST_OBJECT_LOCK(self);
      stream.earliest = GST_CLOCK_TIME_NONE;
      GST_OBJECT_UNLOCK(self);
      batcher.set_active(stream.seat, true);
      batcher.set_flushing(stream.seat, false);
      break;
    case GST_EVENT_STREAM_START: batcher.set_active(stream.seat, true); break;
    case GST_EVENT_CAPS: {
      GstCaps* caps = nullptr;
      gst_event_parse_caps(event, &caps);
      if (!take_caps(self, stream, caps)) {
        gst_event_unref(event);
        return FALSE;
      }
      break;
    }
    case GST_EVENT_SEGMENT: gst_event_copy_segment(event, &stream.segment); break;
    case GST_EVENT_EOS: {
      batcher.set_active(stream.seat, false);
      GST_OBJECT_LOCK(self);
      const uint64_t dropped = stream.dropped;
      GST_OBJECT_UNLOCK(self);
      if (dropped)
        GST_ELEMENT_WARNING(self, STREAM, FAILED,
                            ("stream %u: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                             " frames came late and were dropped; qos=false labels them all",
                             stream.index, guint64(dropped), guint64(stream.frames)),
                            (nullptr));
      break;
    }
    default: break;
  }
  return gst_pad_event_default(pad, parent, event);
}

gboolean src_event(GstPad* pad, GstObject* parent, GstEvent* event) {
  if (GST_EVENT_TYPE(event) == GST_EVENT_QOS) {
    gdouble proportion = 1;
    GstClockTimeDiff late = 0;
    GstClockTime time = GST_CLOCK_TIME_NONE;
    gst_event_parse_qos(event, nullptr, &proportion, &late, &time);
    Stream& stream = stream_of(pad);
    GST_OBJECT_LOCK(parent);
    stream.proportion = proportion;
    // As decoders do: what is late makes the next ones late, too, so twice of it is skipped.
    if (!GST_CLOCK_TIME_IS_VALID(time)) stream.earliest = GST_CLOCK_TIME_NONE;
    else if (late > 0) stream.earliest = time + 2 * GstClockTime(late);
    else stream.earliest = time > GstClockTime(-late) ? time - GstClockTime(-late) : 0;
    GST_OBJECT_UNLOCK(parent);
  }
  return gst_pad_event_default(pad, parent, event);
}

gboolean src_query(GstPad* pad, GstObject* parent, GstQuery* query) {
  if (GST_QUERY_TYPE(query) != GST_QUERY_LATENCY) return gst_pad_query_default(pad, parent, query);
  Stream& stream = stream_of(pad);
  if (!gst_pad_peer_query(stream.sink, query)) return FALSE;
  gboolean live = FALSE;
  GstClockTime least = 0, most = 0;
  gst_query_parse_latency(query, &live, &least, &most);
  const Settings settings = settings_of(TEMPER_INFER(parent));
  GstClockTime held = GstClockTime(std::max(settings.max_wait, 0)) * GST_MSECOND;
  if (stream.has_info && GST_VIDEO_INFO_FPS_N(&stream.info) > 0)
    held += gst_util_uint64_scale((settings.frames - 1) * GST_SECOND, guint64(GST_VIDEO_INFO_FPS_D(&stream.info)),
                                  guint64(GST_VIDEO_INFO_FPS_N(&stream.info)));
  gst_query_set_latency(query, live, least + held, GST_CLOCK_TIME_IS_VALID(most) ? most + held : most);
  return TRUE;
}

GstIterator* other_pad(GstPad* pad, GstObject*) {
  Stream& stream = stream_of(pad);
  GValue value = G_VALUE_INIT;
  g_value_init(&value, GST_TYPE_PAD);
  g_value_set_object(&value, pad == stream.sink ? stream.src : stream.sink);
  GstIterator* const one = gst_iterator_new_single(GST_TYPE_PAD, &value);
  g_value_unset(&value);
  return one;
}

GstPad* make_pad(GstStaticPadTemplate& of, const char* prefix, Stream& stream) {
  const std::string name = prefix + std::to_string(stream.index);
  GstPad* const pad = gst_pad_new_from_static_template(&of, name.c_str());
  gst_pad_set_element_private(pad, &stream);
  gst_pad_set_iterate_internal_links_function(pad, other_pad);
  GST_PAD_SET_PROXY_CAPS(pad);
  return pad;
}

GstPad* request_new_pad(GstElement* element, GstPadTemplate*, const gchar* name, const GstCaps*) {
  TemperInfer* const self = TEMPER_INFER(element);
  guint index = 0;
  GST_OBJECT_LOCK(self);
  std::list<Stream>& streams = self->state->streams;
  for (const Stream& stream : streams) index = std::max(index, stream.index + 1);
  if (name && std::sscanf(name, "sink_%u", &index) == 1)
    for (const Stream& stream : streams)
      if (stream.index == index) {
        GST_OBJECT_UNLOCK(self);
        return nullptr;
      }
  Stream& stream = streams.emplace_back();
  stream.index = index;
  GST_OBJECT_UNLOCK(self);
  gst_segment_init(&stream.segment, GST_FORMAT_UNDEFINED);
  self->state->batcher->join(stream.seat);
  stream.src = make_pad(src_template, "src_", stream);
  gst_pad_set_event_function(stream.src, src_event);
  gst_pad_set_query_function(stream.src, src_query);
  stream.sink = make_pad(sink_template, "sink_", stream);
  gst_pad_set_chain_function(stream.sink, chain);
  gst_pad_set_event_function(stream.sink, sink_event);
  GST_PAD_SET_PROXY_ALLOCATION(stream.sink);
  gst_pad_set_active(stream.src, TRUE);
  gst_pad_set_active(stream.sink, TRUE);
  gst_element_add_pad(element, stream.src);
  gst_element_add_pad(element, stream.sink);
  return stream.sink;
}

void release_pad(GstElement* element, GstPad* pad) {
  TemperInfer* const self = TEMPER_INFER(element);
  Stream& stream = stream_of(pad);
  self->state->batcher->set_flushing(stream.seat, true);
  gst_pad_set_active(stream.sink, FALSE);
  gst_pad_set_active(stream.src, FALSE);
  self->state->batcher->leave(stream.seat);
  let_go(stream);
  gst_element_remove_pad(element, stream.src);
  gst_element_remove_pad(element, stream.sink);
  GST_OBJECT_LOCK(self);
  self->state->streams.remove_if([&](const Stream& one) { return &one == &stream; });
  GST_OBJECT_UNLOCK(self);
}

void set_flushing(TemperInfer* self, bool flushing) {
  GST_OBJECT_LOCK(self);
  for (Stream& stream : self->state->streams) self->state->batcher->set_flushing(stream.seat, flushing);
  GST_OBJECT_UNLOCK(self);
}

bool begin(TemperInfer* self) {
  State& state = *self->state;
  const Settings settings = settings_of(self);
  state.batcher->set_wait(settings.max_wait < 0 ? std::nullopt
                                                : std::optional(std::chrono::milliseconds(settings.max_wait)));
  GST_OBJECT_LOCK(self);
  for (Stream& stream : state.streams) {
    stream.frames = stream.processed = stream.dropped = 0;
    stream.earliest = GST_CLOCK_TIME_NONE;
    stream.has_info = false;
    gst_segment_init(&stream.segment, GST_FORMAT_UNDEFINED);
  }
  GST_OBJECT_UNLOCK(self);
  set_flushing(self, false);
  state.batcher->set_patient(true);
  // The first frames of all streams are one batch, so that each sink has one to begin with.
  for (Stream& stream : state.streams) state.batcher->set_active(stream.seat, gst_pad_is_linked(stream.sink));
  return settings.json.empty() || guarded(self, [&] { state.json.open(settings.json); });
}

GstStateChangeReturn change_state(GstElement* element, GstStateChange change) {
  TemperInfer* const self = TEMPER_INFER(element);
  State& state = *self->state;
  switch (change) {
    case GST_STATE_CHANGE_NULL_TO_READY:
      if (!guarded(self, [&] { state.labeller = std::make_unique<Labeller>(settings_of(self).labeller); }))
        return GST_STATE_CHANGE_FAILURE;
      break;
    case GST_STATE_CHANGE_READY_TO_PAUSED:
      if (!begin(self)) return GST_STATE_CHANGE_FAILURE;
      break;
    case GST_STATE_CHANGE_PAUSED_TO_PLAYING: state.batcher->set_patient(true); break;
    case GST_STATE_CHANGE_PLAYING_TO_PAUSED: state.batcher->set_patient(false); break;
    case GST_STATE_CHANGE_PAUSED_TO_READY: set_flushing(self, true); break;
    default: break;
  }
  const GstStateChangeReturn result = GST_ELEMENT_CLASS(temper_infer_parent_class)->change_state(element, change);
  if (change == GST_STATE_CHANGE_PAUSED_TO_READY) {
    // Pads are inactive now: no thread is in them.
    for (Stream& stream : state.streams) {
      let_go(stream);
      state.batcher->set_active(stream.seat, false);
    }
    if (!guarded(self, [&] { state.json.close(); })) return GST_STATE_CHANGE_FAILURE;
  }
  if (change == GST_STATE_CHANGE_READY_TO_NULL) state.labeller.reset();
  return result;
}

std::string text_of(const GValue* value) {
  const gchar* const text = g_value_get_string(value);
  return text ? text : "";
}

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  TemperInfer* const self = TEMPER_INFER(object);
  GST_OBJECT_LOCK(self);
  Settings& settings = self->state->settings;
  switch (id) {
    case kPlan: settings.labeller.plan = text_of(value); break;
    case kNames: settings.labeller.names = text_of(value); break;
    case kLabels: settings.labeller.kind = Kind(g_value_get_enum(value)); break;
    case kTop: settings.labeller.top = g_value_get_uint(value); break;
    case kThreshold: settings.labeller.threshold = g_value_get_double(value); break;
    case kLeastPixels: settings.labeller.least_pixels = g_value_get_uint(value); break;
    case kFrames: settings.frames = g_value_get_uint(value); break;
    case kMaxWait: settings.max_wait = g_value_get_int(value); break;
    case kQos: settings.qos = g_value_get_boolean(value); break;
    case kJson: settings.json = text_of(value); break;
    case kPostMessages: settings.post_messages = g_value_get_boolean(value); break;
    case kDraw: settings.draw = g_value_get_boolean(value); break;
    case kOutputs: settings.outputs = g_value_get_boolean(value); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
  GST_OBJECT_UNLOCK(self);
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  TemperInfer* const self = TEMPER_INFER(object);
  GST_OBJECT_LOCK(self);
  const Settings& settings = self->state->settings;
  uint64_t processed = 0, dropped = 0;
  for (const Stream& stream : self->state->streams) processed += stream.processed, dropped += stream.dropped;
  switch (id) {
    case kPlan: g_value_set_string(value, settings.labeller.plan.c_str()); break;
    case kNames: g_value_set_string(value, settings.labeller.names.c_str()); break;
    case kLabels: g_value_set_enum(value, int(settings.labeller.kind)); break;
    case kTop: g_value_set_uint(value, guint(settings.labeller.top)); break;
    case kThreshold: g_value_set_double(value, settings.labeller.threshold); break;
    case kLeastPixels: g_value_set_uint(value, guint(settings.labeller.least_pixels)); break;
    case kFrames: g_value_set_uint(value, settings.frames); break;
    case kMaxWait: g_value_set_int(value, settings.max_wait); break;
    case kQos: g_value_set_boolean(value, settings.qos); break;
    case kJson: g_value_set_string(value, settings.json.c_str()); break;
    case kPostMessages: g_value_set_boolean(value, settings.post_messages); break;
    case kDraw: g_value_set_boolean(value, settings.draw); break;
    case kOutputs: g_value_set_boolean(value, settings.outputs); break;
    case kProcessed: g_value_set_uint64(value, processed); break;
    case kDropped: g_value_set_uint64(value, dropped); break;
    default: G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
  GST_OBJECT_UNLOCK(self);
}

void finalize(GObject* object) {
  delete TEMPER_INFER(object)->state;
  G_OBJECT_CLASS(temper_infer_parent_class)->finalize(object);
}

void to_gst_log(temper_log_level level, const char* message, void*) {
  if (level == TEMPER_WARNING) GST_WARNING("%s", message);
  else if (level == TEMPER_INFO) GST_INFO("%s", message);
  else GST_DEBUG("%s", message);
}

GType kind_type() {
  static const GEnumValue values[] = {
      {int(Kind::automatic), "classes or regions, by the shapes of the outputs", "auto"},
      {int(Kind::classes), "the best classes of an output [batch, classes]", "classes"},
      {int(Kind::regions), "boxes around what a score map [batch, 1, height, width] shows", "regions"},
      {int(Kind::none), "the outputs alone", "none"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("TemperInferLabels", values);
  return type;
}

}  // namespace

static void temper_infer_init(TemperInfer* self) {
  self->state = new State;
  self->state->batcher = std::make_unique<Batcher>([self](const std::vector<const Sample*>& samples) {
    return self->state->labeller->run(samples, settings_of(self).outputs);
  });
}

static void temper_infer_class_init(TemperInferClass* its_class) {
  GST_DEBUG_CATEGORY_INIT(temper_infer_debug, "temperinfer", 0, "plans of Temper");
  temper_set_log_callback(to_gst_log, nullptr);
  GObjectClass* const object = G_OBJECT_CLASS(its_class);
  object->set_property = set_property;
  object->get_property = get_property;
  object->finalize = finalize;
  const auto set = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_READY);
  const auto any_time = GParamFlags(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS | GST_PARAM_MUTABLE_PLAYING);
  const auto shown = GParamFlags(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  const auto add = [&](guint id, GParamSpec* spec) { g_object_class_install_property(object, id, spec); };
  add(kPlan, g_param_spec_string("plan", "Plan", "File of temper build that this machine can run", "", set));
  add(kNames, g_param_spec_string("names", "Names", "Text file with the names of classes, one a line", "", set));
  add(kLabels,
      g_param_spec_enum("labels", "Labels", "What is read out of the outputs", kind_type(), int(Kind::automatic), set));
  add(kTop, g_param_spec_uint("top", "Top", "Classes of a frame", 1, G_MAXINT, 5, set));
  add(kThreshold, g_param_spec_double("threshold", "Threshold", "Scores above it belong to a region", -G_MAXDOUBLE,
                                      G_MAXDOUBLE, 0.3, set));
  add(kLeastPixels, g_param_spec_uint("min-pixels", "Least pixels", "Regions of fewer pixels of the map are left out",
                                      1, G_MAXINT, 4, set));
  add(kFrames, g_param_spec_uint("frames", "Frames", "Frames of each stream that go into a batch", 1, 1024, 1, set));
  add(kMaxWait, g_param_spec_int("max-wait", "Longest wait",
                                 "Milliseconds that frames wait for those of other streams (-1: as long as it takes)",
                                 -1, G_MAXINT, 40, set));
  add(kQos, g_param_spec_boolean("qos", "QoS", "Drop frames that the sink would show too late, with a message for each",
                                 TRUE, any_time));
  add(kJson, g_param_spec_string("json", "JSON", "File to write a line of JSON for each frame to", "", set));
  add(kPostMessages, g_param_spec_boolean("post-messages", "Post messages", "Post an element message for each frame",
                                          FALSE, any_time));
  add(kDraw, g_param_spec_boolean("draw", "Draw", "Draw the boxes into the frames", FALSE, any_time));
  add(kOutputs,
      g_param_spec_boolean("outputs", "Outputs", "Attach the outputs of the plan to the frames, too", FALSE, any_time));
  add(kProcessed, g_param_spec_uint64("processed", "Processed", "Frames that were labelled", 0, G_MAXUINT64, 0, shown));
  add(kDropped, g_param_spec_uint64("dropped", "Dropped", "Frames that were dropped because they were late", 0,
                                    G_MAXUINT64, 0, shown));

  GstElementClass* const element = GST_ELEMENT_CLASS(its_class);
  element->request_new_pad = request_new_pad;
  element->release_pad = release_pad;
  element->change_state = change_state;
  gst_element_class_add_static_pad_template(element, &sink_template);
  gst_element_class_add_static_pad_template(element, &src_template);
  gst_element_class_set_static_metadata(element, "Temper inference", "Filter/Analyzer/Video",
                                        "Labels frames of one stream or several by a plan of Temper",
                                        "Temper's developers");
  gst_type_mark_as_plugin_api(kind_type(), GstPluginAPIFlags(0));
}
