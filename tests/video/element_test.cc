// SPDX-License-Identifier: Apache-2.0
// The element in pipelines: its labels beside those of `temper run`, batches, late frames, faults. TEMPER_VIDEO_FRAMES
// sets the number of frames of the long one (./dev test-video: 300).
#include <gst/gst.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "../cli/program.h"
#include "../paths.h"
#include "data/npy.h"

namespace temper {
namespace {

// What came out of a pipeline, and what it said.
struct Frame {
  GstClockTime time = GST_CLOCK_TIME_NONE;
  nlohmann::json labels;
  std::vector<std::vector<std::byte>> outputs;
  int regions_of_interest = 0;
  std::vector<std::byte> pixels;
};
struct Played {
  std::map<std::string, std::vector<Frame>> frames;  // by the sink's name
  std::string error;                                 // "": it came to its end
  std::vector<std::string> warnings;
  std::vector<std::string> labels;  // of element messages
  int late = 0;                     // messages of frames that were dropped
};

Frame frame_of(GstBuffer* buffer) {
  Frame frame;
  frame.time = GST_BUFFER_PTS(buffer);
  if (GstCustomMeta* const meta = gst_buffer_get_custom_meta(buffer, "TemperLabels")) {
    GstStructure* const its = gst_custom_meta_get_structure(meta);
    frame.labels = nlohmann::json::parse(gst_structure_get_string(its, "json"));
    if (const GValue* const list = gst_structure_get_value(its, "outputs"))
      for (guint i = 0; i < gst_value_list_get_size(list); ++i) {
        const GstStructure* const output = gst_value_get_structure(gst_value_list_get_value(list, i));
        gsize size = 0;
        const auto* const data = static_cast<const std::byte*>(
            g_bytes_get_data(static_cast<GBytes*>(g_value_get_boxed(gst_structure_get_value(output, "data"))), &size));
        frame.outputs.emplace_back(data, data + size);
      }
  }
  frame.regions_of_interest = int(gst_buffer_get_n_meta(buffer, g_type_from_name("GstVideoRegionOfInterestMetaAPI")));
  GstMapInfo map;
  if (gst_buffer_map(buffer, &map, GST_MAP_READ)) {
    const auto* const data = reinterpret_cast<const std::byte*>(map.data);
    frame.pixels.assign(data, data + map.size);
    gst_buffer_unmap(buffer, &map);
  }
  return frame;
}

class Pipeline {
 public:
  explicit Pipeline(const std::string& text) {
    GError* error = nullptr;
    pipeline_ = gst_parse_launch(text.c_str(), &error);
    if (error) {
      played.error = error->message;
      g_error_free(error);
    }
    GstIterator* const sinks = gst_bin_iterate_sinks(GST_BIN(pipeline_));
    GValue item = G_VALUE_INIT;
    while (gst_iterator_next(sinks, &item) == GST_ITERATOR_OK) {
      GstElement* const sink = GST_ELEMENT(g_value_get_object(&item));
      GstPad* const pad = gst_element_get_static_pad(sink, "sink");
      std::vector<Frame>& frames = played.frames[GST_OBJECT_NAME(sink)];  // each stays where it is
      gst_pad_add_probe(
          pad, GST_PAD_PROBE_TYPE_BUFFER,
          [](GstPad*, GstPadProbeInfo* info, gpointer to) {
            static_cast<std::vector<Frame>*>(to)->push_back(frame_of(GST_PAD_PROBE_INFO_BUFFER(info)));
            return GST_PAD_PROBE_OK;
          },
          &frames, nullptr);
      gst_object_unref(pad);
      g_value_reset(&item);
    }
    g_value_unset(&item);
    gst_iterator_free(sinks);
  }
  ~Pipeline() {
    gst_element_set_state(pipeline_, GST_STATE_NULL);
    gst_object_unref(pipeline_);
  }
  Pipeline(const Pipeline&) = delete;

  GstElement* get() const { return pipeline_; }
  // Belongs to the pipeline.
  GstElement* named(const char* name) const {
    GstElement* const element = gst_bin_get_by_name(GST_BIN(pipeline_), name);
    gst_object_unref(element);
    return element;
  }
  bool set(GstState state) {
    if (gst_element_set_state(pipeline_, state) == GST_STATE_CHANGE_FAILURE) return false;
    return gst_element_get_state(pipeline_, nullptr, nullptr, 120 * GST_SECOND) == GST_STATE_CHANGE_SUCCESS;
  }
  // To its end, or its first error.
  Played& play() {
    if (!played.error.empty()) return played;
    gst_element_set_state(pipeline_, GST_STATE_PLAYING);
    return wait();
  }
  Played& wait() {
    GstBus* const bus = gst_element_get_bus(pipeline_);
    for (bool done = false; !done;) {
      GstMessage* const message = gst_bus_timed_pop(bus, 120 * GST_SECOND);
      if (!message) {
        played.error = "nothing happens";
        break;
      }
      GError* error = nullptr;
      switch (GST_MESSAGE_TYPE(message)) {
        case GST_MESSAGE_EOS: done = true; break;
        case GST_MESSAGE_ERROR:
          gst_message_parse_error(message, &error, nullptr);
          played.error = error->message;
          done = true;
          break;
        case GST_MESSAGE_WARNING:
          gst_message_parse_warning(message, &error, nullptr);
          played.warnings.emplace_back(error->message);
          break;
        case GST_MESSAGE_QOS: ++played.late; break;
        case GST_MESSAGE_ELEMENT:
          if (const char* const line = gst_structure_get_string(gst_message_get_structure(message), "json"))
            played.labels.emplace_back(line);
          break;
        default: break;
      }
      if (error) g_error_free(error);
      gst_message_unref(message);
    }
    gst_object_unref(bus);
    return played;
  }

  Played played;

 private:
  GstElement* pipeline_;
};

std::vector<nlohmann::json> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string source(int frames, int size, const std::string& format = "RGB", const std::string& pattern = "ball") {
  return concat("videotestsrc num-buffers=", frames, " pattern=", pattern, " ! video/x-raw,format=", format,
                ",width=", size, ",height=", size, ",framerate=25/1");
}

// A map of scores, and scores of classes, both of the mean of 2 x 2 pixels: small models whose answers depend on every
// pixel.
void make_models(const std::string& folder) {
  run_python(folder, R"(
import onnx
from onnx import TensorProto, helper
def save(name, nodes, output, weights):
    graph = helper.make_graph(nodes, name, [helper.make_tensor_value_info('x', TensorProto.FLOAT, ['n', 3, 32, 32])],
        [helper.make_tensor_value_info('y', TensorProto.FLOAT, output)], [helper.make_tensor(k, TensorProto.FLOAT, v.shape, v.astype('f4').ravel()) for k, v in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid('', 17)], ir_version=8), name + '.onnx')
rng = np.random.default_rng(1)
save('map', [helper.make_node('Conv', ['x', 'w'], ['c'], strides=[2, 2]), helper.make_node('Sigmoid', ['c'], ['y'])], ['n', 1, 16, 16], {'w': rng.normal(0, 1, (1, 3, 2, 2))})
save('classes', [helper.make_node('Flatten', ['x'], ['f']), helper.make_node('MatMul', ['f', 'w'], ['y'])], ['n', 7], {'w': rng.normal(0, .05, (3072, 7))})
)");
}

class VideoElement : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    gst_init(nullptr, nullptr);
    GError* error = nullptr;
    ASSERT_TRUE(gst_plugin_load_file(TEMPER_VIDEO_PLUGIN, &error)) << error->message;
  }
  void SetUp() override {
    folder = test_folder();
    make_models(folder);
    for (const std::string name : {"map", "classes"})
      run("build " + name + ".onnx -o " + name +
          ".plan --no-measure --threads 1 --input-pictures --preprocess unit --fit stretch "
          "--shapes x=1x3x32x32:1x3x32x32:8x3x32x32");
  }
  void run(const std::string& arguments) {
    const Outcome outcome = temper(folder, arguments);
    ASSERT_EQ(outcome.code, 0) << arguments << ": " << outcome.err;
  }
  std::string infer(const std::string& plan, const std::string& more = "") const {
    return "temperinfer name=t plan=" + folder + plan + " " + more;
  }

  std::string folder;
};

TEST_F(VideoElement, FramesOfAFileAreLabelledAsTheProgramDoesIt) {
  const char* const asked = std::getenv("TEMPER_VIDEO_FRAMES");
  const int count = asked ? std::atoi(asked) : 12;
  run_python(folder, R"(
import importlib.util, os, shutil
models = os.path.join(os.path.dirname(importlib.util.find_spec('rapidocr_onnxruntime').origin), 'models')
shutil.copy(os.path.join(models, 'ch_PP-OCRv4_det_infer.onnx'), 'det.onnx')
)");
  run("build det.onnx -o det.plan --no-measure --input-pictures --fit stretch --mean 0.5 --std 0.5 --crop 96x160 "
      "--shapes x=1x3x96x160");
  // Frames of another size than the model's, through a lossy codec; both sides see what the decoder gives.
  ASSERT_EQ(Pipeline(concat("videotestsrc num-buffers=", count,
                            " pattern=ball ! video/x-raw,width=320,height=180,framerate=25/1 ! jpegenc "
                            "! avimux ! filesink location=",
                            folder, "v.avi"))
                .play()
                .error,
            "");
  const std::string decoded =
      "filesrc location=" + folder + "v.avi ! avidemux ! jpegdec ! videoconvert ! video/x-raw,format=RGB ! ";
  std::filesystem::create_directories(folder + "pictures");
  ASSERT_EQ(Pipeline(decoded + "pngenc ! multifilesink location=" + folder + "pictures/%05d.png").play().error, "");
  run("run det.plan --input pictures --batch 1 --output-dir out");
  const std::string file = std::filesystem::directory_iterator(folder + "out")->path();
  const Tensor expected = read_npy(file);
  ASSERT_EQ(expected.dims()[0], count);

  Pipeline pipeline(decoded + infer("det.plan", "outputs=true json=" + folder + "labels.jsonl") + " ! fakesink name=s");
  const Played& played = pipeline.play();
  ASSERT_EQ(played.error, "");
  const std::vector<Frame>& frames = played.frames.at("s");
  ASSERT_EQ(int(frames.size()), count);
  const size_t bytes = size_t(expected.bytes() / count);
  const auto lines = lines_of(folder + "labels.jsonl");
  ASSERT_EQ(int(lines.size()), count);
  for (int i = 0; i < count; ++i) {
    const Frame& frame = frames[size_t(i)];
    ASSERT_EQ(frame.outputs.size(), 1u);
    ASSERT_EQ(frame.outputs[0].size(), bytes);
    EXPECT_EQ(std::memcmp(frame.outputs[0].data(), expected.raw().data() + size_t(i) * bytes, bytes), 0) << i;
    EXPECT_EQ(frame.labels.at("frame"), i);
    EXPECT_EQ(frame.labels, lines[size_t(i)]);
    EXPECT_EQ(int(frame.labels.at("regions").size()), frame.regions_of_interest);
  }
}

TEST_F(VideoElement, ClassesAreThoseOfTheProgram) {
  std::filesystem::create_directories(folder + "pictures");
  const std::string frames = source(6, 48) + " ! ";  // stretched by both
  ASSERT_EQ(Pipeline(frames + "pngenc ! multifilesink location=" + folder + "pictures/%05d.png").play().error, "");
  write_text(folder + "names.txt", "zero\none\ntwo\nthree\nfour\nfive\nsix\n");
  const Outcome outcome =
      temper(folder, "run classes.plan --input pictures --batch 1 --top 3 --class-names names.txt --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const auto expected = nlohmann::json::parse(outcome.out).at("top");
  Pipeline pipeline(frames + infer("classes.plan", "top=3 post-messages=true names=" + folder + "names.txt") +
                    " ! fakesink name=s");
  const Played& played = pipeline.play();
  ASSERT_EQ(played.error, "");
  ASSERT_EQ(played.frames.at("s").size(), 6u);
  ASSERT_EQ(played.labels.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(played.frames.at("s")[i].labels.at("classes"), expected[i].at("classes")) << i;
    EXPECT_EQ(nlohmann::json::parse(played.labels[i]), played.frames.at("s")[i].labels);
  }
}

TEST_F(VideoElement, GreyAndBlueFirstAreTheSamePictures) {
  std::vector<nlohmann::json> seen;
  for (const std::string format : {"RGB", "BGR"}) {
    Pipeline pipeline(source(1, 32, format) + " ! " + infer("classes.plan") + " ! fakesink name=s");
    ASSERT_EQ(pipeline.play().error, "");
    seen.push_back(pipeline.played.frames.at("s").at(0).labels);
  }
  EXPECT_EQ(seen[0], seen[1]);
  Pipeline grey(source(1, 32, "GRAY8") + " ! tee name=g  g. ! queue ! " + infer("classes.plan") +
                " ! fakesink name=a  g. ! queue ! videoconvert ! video/x-raw,format=RGB ! temperinfer plan=" + folder +
                "classes.plan ! fakesink name=b");
  ASSERT_EQ(grey.play().error, "");
  EXPECT_EQ(grey.played.frames.at("a").at(0).labels, grey.played.frames.at("b").at(0).labels);
}

// The outputs of one frame in a run of that batch and row, in another process.
std::vector<std::byte> run_elsewhere(const std::string& folder, const std::vector<const Frame*>& batch, size_t row) {
  const std::string file = folder + "batch.npy";
  Tensor input(DType::u8, {int64_t(batch.size()), 32, 32, 3});
  for (size_t i = 0; i < batch.size(); ++i) std::memcpy(input.raw_mutable() + i * 3072, batch[i]->pixels.data(), 3072);
  write_npy(file, input, true);
  const Outcome outcome = temper(
      folder, concat("run map.plan --input batch.npy --batch ", batch.size(), " --output-dir elsewhere --force"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Tensor all = read_npy(folder + "elsewhere/y.npy");
  const size_t bytes = size_t(all.bytes()) / batch.size();
  return {all.raw().data() + row * bytes, all.raw().data() + (row + 1) * bytes};
}

TEST_F(VideoElement, StreamsShareBatchesAndOneThatEndsLeavesTheOthersTheirs) {
  Pipeline pipeline(infer("map.plan", "max-wait=-1 outputs=true") + "  " + source(5, 32) + " ! t.sink_0  " +
                    source(3, 32, "RGB", "smpte") +
                    " ! t.sink_1  t.src_0 ! fakesink name=a  t.src_1 ! fakesink name=b");
  const Played& played = pipeline.play();
  ASSERT_EQ(played.error, "");
  const auto &a = played.frames.at("a"), &b = played.frames.at("b");
  ASSERT_EQ(a.size(), 5u);
  ASSERT_EQ(b.size(), 3u);
  for (size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(a[i].labels.at("batch"), i < 3 ? 2 : 1) << i;
    EXPECT_EQ(a[i].labels.at("stream"), 0);
  }
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(b[i].labels.at("row"), 1);
  EXPECT_EQ(a[2].outputs.at(0), run_elsewhere(folder, {&a[2], &b[2]}, 0));
  EXPECT_EQ(b[2].outputs.at(0), run_elsewhere(folder, {&a[2], &b[2]}, 1));
  EXPECT_EQ(a[4].outputs.at(0), run_elsewhere(folder, {&a[4]}, 0));
}

TEST_F(VideoElement, TheEndInTheMiddleOfABatchLosesNoFrame) {
  Pipeline pipeline(source(10, 32) + " ! " + infer("map.plan", "frames=4 outputs=true") + " ! fakesink name=s");
  ASSERT_EQ(pipeline.play().error, "");
  const auto& frames = pipeline.played.frames.at("s");
  ASSERT_EQ(frames.size(), 10u);
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(frames[i].labels.at("frame"), i);
    EXPECT_EQ(frames[i].labels.at("batch"), i < 8 ? 4 : 2);
    EXPECT_EQ(frames[i].labels.at("row"), i % 4);
  }
  EXPECT_EQ(frames[9].outputs.at(0), run_elsewhere(folder, {&frames[8], &frames[9]}, 1));
  guint64 processed = 0;
  g_object_get(pipeline.named("t"), "processed", &processed, nullptr);
  EXPECT_EQ(processed, 10u);
}

// More streams than the plan takes at once: several runs, and every frame has its own labels.
TEST_F(VideoElement, AFullBatchIsRunInParts) {
  Pipeline pipeline(source(12, 32) + " ! " + infer("map.plan", "frames=12") + " ! fakesink name=s");
  ASSERT_EQ(pipeline.play().error, "");
  const auto& frames = pipeline.played.frames.at("s");
  ASSERT_EQ(frames.size(), 12u);
  EXPECT_EQ(frames[7].labels.at("batch"), 8);
  EXPECT_EQ(frames[8].labels.at("batch"), 4);
}

// The sink says of the frame at 0.12 s that it came 0.08 s late: the four frames to 0.28 s are too late, too.
TEST_F(VideoElement, LateFramesAreDroppedByNameAndCounted) {
  Pipeline pipeline(source(12, 32) + " ! " + infer("map.plan", "json=" + folder + "l.jsonl") +
                    " ! fakesink name=s sync=false");
  GstPad* const pad = gst_element_get_static_pad(pipeline.named("s"), "sink");
  gst_pad_add_probe(
      pad, GST_PAD_PROBE_TYPE_BUFFER,
      [](GstPad* its, GstPadProbeInfo* info, gpointer) {
        const GstClockTime time = GST_BUFFER_PTS(GST_PAD_PROBE_INFO_BUFFER(info));
        if (time == 120 * GST_MSECOND)
          gst_pad_push_event(its, gst_event_new_qos(GST_QOS_TYPE_UNDERFLOW, 2, 80 * GST_MSECOND, time));
        return GST_PAD_PROBE_OK;
      },
      nullptr, nullptr);
  gst_object_unref(pad);
  const Played& played = pipeline.play();
  ASSERT_EQ(played.error, "");
  EXPECT_EQ(played.late, 4);
  ASSERT_EQ(played.warnings.size(), 1u);
  EXPECT_CONTAINS(played.warnings[0], "stream 0: 4 of 12 frames came late and were dropped");
  std::vector<int> dropped;
  for (const auto& line : lines_of(folder + "l.jsonl"))
    if (line.contains("dropped")) dropped.push_back(line.at("frame"));
  EXPECT_EQ(dropped, (std::vector<int>{4, 5, 6, 7}));
  EXPECT_EQ(played.frames.at("s").size(), 8u);
  guint64 count = 0;
  g_object_get(pipeline.named("t"), "dropped", &count, nullptr);
  EXPECT_EQ(count, 4u);
}

TEST_F(VideoElement, BoxesAreDrawnAndLieInTheFrame) {
  Pipeline pipeline(source(2, 64) + " ! " + infer("map.plan", "draw=true threshold=0.5") + " ! fakesink name=s");
  ASSERT_EQ(pipeline.play().error, "");
  for (const Frame& frame : pipeline.played.frames.at("s")) {
    ASSERT_FALSE(frame.labels.at("regions").empty());
    for (const auto& region : frame.labels.at("regions")) {
      const std::vector<double> box = region.at("box");
      EXPECT_TRUE(0 <= box[0] && box[0] < box[2] && box[2] <= 64 && 0 <= box[1] && box[1] < box[3] && box[3] <= 64);
      const size_t corner = (size_t(box[1]) * 64 + size_t(box[0])) * 3;
      EXPECT_EQ(int(frame.pixels[corner]), 255);
    }
  }
}

TEST_F(VideoElement, WhatCannotBeRunIsRefusedWithTheReason) {
  const auto error_of = [&](const std::string& text) { return Pipeline(text).play().error; };
  const std::string to = " ! fakesink";
  const auto refusal = [&](const std::string& what) { return error_of(source(2, 32) + " ! " + what + to); };
  EXPECT_CONTAINS(refusal("temperinfer"), "no plan is given");
  EXPECT_CONTAINS(refusal(infer("none.plan")), "none.plan");
  std::string plan = read_file(folder + "map.plan");
  plan[plan.size() / 2] ^= 1;
  write_text(folder + "damaged.plan", plan);
  EXPECT_CONTAINS(refusal(infer("damaged.plan")), "damaged");
  write_text(folder + "cut.plan", plan.substr(0, plan.size() / 2));
  EXPECT_CONTAINS(refusal(infer("cut.plan")), "cut.plan");
  run("build map.onnx -o base.plan --no-measure --isa base");
  EXPECT_CONTAINS(refusal(infer("base.plan")), "temper build");  // the command that builds it for this machine
  run_python(folder, R"(
import onnx
from onnx import TensorProto, helper
value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ['n', 5])
onnx.save(helper.make_model(helper.make_graph([helper.make_node('Relu', ['x'], ['y'])], 'g', [value('x')], [value('y')]), opset_imports=[helper.make_opsetid('', 17)], ir_version=8), 'rows.onnx')
)");
  run("build rows.onnx -o rows.plan --no-measure");
  EXPECT_CONTAINS(refusal(infer("rows.plan")), "takes no pictures");
  EXPECT_CONTAINS(refusal(infer("map.plan", "labels=classes")), "no output is a classifier's");
  EXPECT_CONTAINS(refusal(infer("classes.plan", "draw=true")), "draws boxes");
  EXPECT_CONTAINS(refusal(infer("classes.plan", "names=" + folder + "none.txt")), "none.txt");
  write_text(folder + "mine.txt", "a text of the user's\n");
  EXPECT_CONTAINS(refusal(infer("map.plan", "json=" + folder + "mine.txt")), "not replaced");
  EXPECT_EQ(read_file(folder + "mine.txt"), "a text of the user's\n");
  EXPECT_CONTAINS(refusal(infer("map.plan", "json=" + folder + "none/x.jsonl")), "cannot be written");
  EXPECT_CONTAINS(refusal(infer("map.plan", "json=/dev/full")), "No space left");
}

TEST_F(VideoElement, WrongCapsAreRefusedByName) {
  // Known before anything runs: GStreamer's own words.
  EXPECT_CONTAINS(Pipeline(source(1, 32, "I420") + " ! " + infer("map.plan") + " ! fakesink").play().error,
                  "could not link");
  // A crop that the frames are too small for.
  run("build classes.onnx -o crop.plan --no-measure --input-pictures --preprocess unit --fit crop --resize 32 --shapes "
      "x=1x3x32x32");
  EXPECT_EQ(Pipeline(source(1, 20) + " ! " + infer("crop.plan") + " ! fakesink").play().error, "");
  // Buffers that are no frames of their caps.
  EXPECT_CONTAINS(Pipeline("fakesrc num-buffers=1 sizetype=fixed sizemax=7 format=time ! capsfilter "
                           "caps=video/x-raw,format=RGB,width=32,height=32,framerate=25/1 ! " +
                           infer("map.plan") + " ! fakesink")
                      .play()
                      .error,
                  "7 bytes");
}

TEST_F(VideoElement, StatesChangeInTheMiddleOfAnything) {
  Pipeline pipeline(infer("map.plan", "max-wait=-1 json=" + folder + "l.jsonl") + "  " + source(40, 32) +
                    " ! t.sink_0  " + source(40, 32) + " ! t.sink_1  t.src_0 ! fakesink  t.src_1 ! fakesink");
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pipeline.set(GST_STATE_PAUSED));
    EXPECT_TRUE(pipeline.set(GST_STATE_PLAYING));
    EXPECT_TRUE(pipeline.set(GST_STATE_PAUSED));
    EXPECT_TRUE(pipeline.set(GST_STATE_READY));
  }
  EXPECT_TRUE(pipeline.set(GST_STATE_NULL));
  EXPECT_EQ(pipeline.play().error, "");
  EXPECT_EQ(lines_of(folder + "l.jsonl").size(), 80u);  // of the last time alone
}

// A stream that waits for another one, from which nothing comes, lets go when the pipeline is stopped.
TEST_F(VideoElement, AStreamThatWaitsIsStopped) {
  Pipeline pipeline(infer("map.plan", "max-wait=-1") + "  " + source(4, 32) +
                    " ! t.sink_0  appsrc caps=video/x-raw,format=RGB,width=32,"
                    "height=32,framerate=25/1 format=time ! t.sink_1  t.src_0 ! fakesink async=false  t.src_1 ! "
                    "fakesink async=false");
  ASSERT_EQ(pipeline.played.error, "");
  gst_element_set_state(pipeline.get(), GST_STATE_PLAYING);
  EXPECT_NE(gst_element_set_state(pipeline.get(), GST_STATE_NULL), GST_STATE_CHANGE_FAILURE);
}

TEST_F(VideoElement, ASeekBeginsAgain) {
  ASSERT_EQ(Pipeline(source(20, 32) + " ! jpegenc ! avimux ! filesink location=" + folder + "v.avi").play().error, "");
  Pipeline pipeline("filesrc location=" + folder +
                    "v.avi ! avidemux ! jpegdec ! videoconvert ! video/x-raw,format=RGB ! " +
                    infer("map.plan", "frames=3") + " ! fakesink name=s");
  ASSERT_TRUE(pipeline.set(GST_STATE_PAUSED));
  ASSERT_TRUE(gst_element_seek_simple(pipeline.get(), GST_FORMAT_TIME,
                                      GstSeekFlags(GST_SEEK_FLAG_FLUSH | GST_SEEK_FLAG_ACCURATE), 0));
  EXPECT_EQ(pipeline.play().error, "");
  const auto& frames = pipeline.played.frames.at("s");
  ASSERT_GE(frames.size(), 20u);  // and those before the seek
  EXPECT_EQ(frames[frames.size() - 20].time, 0u);
  EXPECT_EQ(frames.back().time, 19 * 40 * GST_MSECOND);
}

TEST_F(VideoElement, TheSameElementRunsAnotherPlanLater) {
  Pipeline pipeline(source(2, 32) + " ! " + infer("map.plan") + " ! fakesink name=s");
  ASSERT_EQ(pipeline.play().error, "");
  ASSERT_TRUE(pipeline.set(GST_STATE_NULL));
  g_object_set(pipeline.named("t"), "plan", (folder + "classes.plan").c_str(), nullptr);
  ASSERT_EQ(pipeline.play().error, "");
  const auto& frames = pipeline.played.frames.at("s");
  ASSERT_EQ(frames.size(), 4u);
  EXPECT_TRUE(frames[1].labels.contains("regions"));
  EXPECT_TRUE(frames[3].labels.contains("classes"));
}

}  // namespace
}  // namespace temper
