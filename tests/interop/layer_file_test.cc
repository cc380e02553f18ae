// SPDX-License-Identifier: Apache-2.0
#include "interop/layer_file.h"

#include <gtest/gtest.h>

#include <random>

#include "bench/explain_text.h"
#include "interop/layer_engines.h"
#include "interop/layer_json.h"
#include "trex.h"

namespace temper {
namespace {

std::string tensor(const std::string& name, const std::string& dims, const std::string& format) {
  return concat(R"({"Name": ")", name, R"(", "Location": "Device", "Dimensions": [)", dims, R"(], )", format, "}");
}
std::string layer(const std::string& name, const std::string& type, const std::string& in, const std::string& out,
                  const std::string& more = "") {
  return concat(R"({"Name": ")", name, R"(", "LayerType": ")", type, R"(", "Inputs": [)", in, R"(], "Outputs": [)", out,
                "]", more, "}");
}
std::string half(const std::string& name) {
  return tensor(name, "1,64,8,8", R"("Format/Datatype": "Channel major FP16 format where channel % 8 == 0")");
}
const std::string kConv = R"(, "ParameterType": "Convolution", "Kernel": [3,3], "Groups": 1, "OutMaps": 64,
  "Weights": {"Type": "Half", "Count": 36864}, "Bias": {"Type": "Float", "Count": 64}, "TacticName": "t")";

std::string expect_error(const std::string& text) {
  try {
    read_layer_info(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::bad_file);
    return error.what();
  }
  ADD_FAILURE() << "accepted: " << text;
  return "";
}

TEST(LayerFile, ALayerOf8xHasItsPrecisionsItsBytesAndItsOperations) {
  const LayerInfo info =
      read_layer_info(concat(R"({"Layers": [)", layer("a + b", "CaskConvolution", half("x"), half("y"), kConv),
                             R"(], "Bindings": ["x", "y"]})"));
  ASSERT_EQ(info.engine.layers.size(), 1u);
  const EngineLayer& l = info.engine.layers[0];
  EXPECT_TRUE(info.detailed);
  EXPECT_EQ(l.kind, LayerKind::convolution);
  EXPECT_EQ(l.from, "fp16");
  EXPECT_EQ(l.to, "fp16");
  EXPECT_EQ(l.merged, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(l.operations, 2 * 64 * 64 * 64 * 9);
  EXPECT_EQ(l.bytes, 2 * 64 * 64 * 2 + 36864 * 2 + 64 * 4);
  EXPECT_EQ(l.tactic, "t");
  EXPECT_EQ(info.engine.inputs, std::vector<std::string>{"x"});
  EXPECT_EQ(info.engine.outputs, std::vector<std::string>{"y"});
}

TEST(LayerFile, TheSplitFieldsOf11xSayTheSame) {
  const std::string format = R"("Format": "Channel major", "Datatype": "FP16")",
                    other = R"("Format": "LINEAR", "DataType": "kINT8")";
  const LayerInfo info = read_layer_info(
      concat(R"({"Layers": [)",
             layer("a", "CaskConvolution", tensor("x", "1,64,8,8", format), tensor("y", "1,64,8,8", other), kConv),
             R"(], "I/O Tensors": [{"Name": "x", "IOMode": "INPUT", "DataType": "FP16", "Dimensions": [1,64,8,8],
                 "Location": "DEVICE", "IsShapeInferenceIO": false,
                 "ProfileInfo": [{"MinShape": [1]}]}, {"Name": "y"}]})"));
  EXPECT_EQ(info.engine.layers[0].from, "fp16");
  EXPECT_EQ(info.engine.layers[0].to, "int8");
  EXPECT_EQ(info.engine.layers[0].operations, 2 * 64 * 64 * 64 * 9);
}

TEST(LayerFile, WithoutDetailsLayersAreNamesAndTheNoteSaysHowToGetMore) {
  const LayerInfo info = read_layer_info(
      R"({"Layers": ["Conv__25 + Relu"
,"MaxPool2d"
,"Reformatting CopyNode for Input Tensor 0 to MaxPool2d"
,"MatMul + b3/read:0 + add_2"
,"copied_squeeze_after_add_3"
],
"Bindings": ["x:0"
,"z:0"
]})");
  EXPECT_FALSE(info.detailed);
  ASSERT_EQ(info.engine.notes.size(), 1u);
  EXPECT_NE(info.engine.notes[0].find("--profilingVerbosity=detailed"), std::string::npos);
  const LayerKind kinds[] = {LayerKind::convolution, LayerKind::pooling, LayerKind::reformat, LayerKind::matmul};
  for (size_t i = 0; i < std::size(kinds); ++i) EXPECT_EQ(info.engine.layers[i].kind, kinds[i]) << i;
  EXPECT_EQ(info.engine.layers[0].from, "");
}

TEST(LayerFile, WithDynamicShapesTheWeightsTellThePrecisionAndSizesAreNotKnown) {
  const std::string open = tensor("x", "-1,64,8,8", R"("Format/Datatype": "N/A due to dynamic shapes")");
  const EngineLayer l =
      read_layer_info(concat(R"({"Layers": [)", layer("a", "CaskConvolution", open, open, kConv), "]}"))
          .engine.layers[0];
  EXPECT_EQ(l.from, "fp16");
  EXPECT_EQ(l.to, "");
  EXPECT_FALSE(l.bytes);
  EXPECT_FALSE(l.operations);
}

TEST(LayerFile, PrecisionsAreFoundInAllSpellings) {
  EXPECT_EQ(precision_in("Row major linear FP32"), "fp32");
  EXPECT_EQ(precision_in("Thirty-two wide channel vectorized row major Int8 format"), "int8");
  EXPECT_EQ(precision_in("Half(64,1:8,...)"), "fp16");
  EXPECT_EQ(precision_in("BFloat16"), "bf16");
  EXPECT_EQ(precision_in("kFP8"), "fp8");
  EXPECT_EQ(precision_in("Channel major FP16 format where channel % 8 == 0"), "fp16");
  EXPECT_EQ(precision_in("N/A due to dynamic shapes"), "");
  EXPECT_EQ(precision_in("Int80"), "");
}

TEST(LayerFile, KindsFollowTypeAndOriginAndGeneratedKernelsTheirNames) {
  const auto kind = [&](const std::string& name, const std::string& type, const std::string& from,
                        const std::string& to, const std::string& more) {
    const auto t = [](const std::string& n, const std::string& p) {
      return tensor(n, "1,8", R"("Datatype": ")" + p + "\"");
    };
    return read_layer_info(concat(R"({"Layers": [)", layer(name, type, t("x", from), t("y", to), more), "]}"))
        .engine.layers[0]
        .kind;
  };
  EXPECT_EQ(kind("a", "Reformat", "FP16", "Int8", R"(, "Origin": "QDQ")"), LayerKind::quantize);
  EXPECT_EQ(kind("a", "Scale", "Int8", "FP32", R"(, "Origin": "QDQ")"), LayerKind::dequantize);
  EXPECT_EQ(kind("a", "Reformat", "FP16", "FP16", R"(, "Origin": "REFORMAT")"), LayerKind::reformat);
  EXPECT_EQ(kind("a", "NoOp", "FP16", "FP16", ""), LayerKind::nothing);
  EXPECT_EQ(kind("a", "ConvActPool", "Int8", "Int8", ""), LayerKind::convolution);
  EXPECT_EQ(kind("a", "gemm", "FP16", "FP16", ""), LayerKind::matmul);
  EXPECT_EQ(kind("a", "CaskGemmMatrixMultiply", "FP16", "FP16", ""), LayerKind::matmul);
  EXPECT_EQ(kind("__myl_MulAddRelu_0", "kgen", "FP16", "FP16", ""), LayerKind::pointwise);
  EXPECT_EQ(kind("__myl_ReshTran_0", "kgen", "FP16", "FP16", ""), LayerKind::movement);
  EXPECT_EQ(kind("__myl_Quan_0", "kgen", "FP16", "Int8", ""), LayerKind::quantize);
  EXPECT_EQ(kind("_gemm_mha_v2_0", "kgen", "FP16", "FP16", ""), LayerKind::attention);
  EXPECT_EQ(kind("a", "CudaPooling", "FP16", "FP16", ""), LayerKind::pooling);
  EXPECT_EQ(kind("{ForeignNode[a...b]}", "Myelin", "FP16", "FP16", ""), LayerKind::other);
}

TEST(LayerFile, MergedLayersAreReadFromTheMetadataWithItsControlCharacters) {
  const std::string text = concat(
      R"({"Layers": [)",
      layer("fused", "kgen", half("x"), half("y"), ", \"Metadata\": \"[ONNX Layer: /a/Add]\x1e[ONNX Layer: /b/Relu]\""),
      "]}");
  EXPECT_EQ(read_layer_info(text).engine.layers[0].merged, (std::vector<std::string>{"/a/Add", "/b/Relu"}));
}

TEST(LayerFile, NamesOfAProfileAreReadThoughTheyAreNotEscapedAndNumbersAreExact) {
  const LayerProfile profile = read_layer_profile(R"([
  { "count" : 812 }
, { "name" : "a "quoted", name\path\new "b"", "timeMs" : 162.4, "averageMs" : 0.2, "medianMs" : 0.197632,
    "percentage" : 50.1 }
, { "name" : "plain + {x}, [y]", "timeMs" : 1, "averageMs" : 0.1, "percentage" : 49.9 }
, { "name" : "ends in \", "timeMs" : 1e-05, "averageMs" : 1e-05, "medianMs" : 1e-05, "percentage" : 0 }
])");
  EXPECT_EQ(profile.runs, 812);
  ASSERT_EQ(profile.layers.size(), 3u);
  EXPECT_EQ(profile.layers[0].name, R"(a "quoted", name\path\new "b")");
  EXPECT_EQ(profile.layers[0].ms, 0.197632);
  EXPECT_EQ(profile.layers[1].name, "plain + {x}, [y]");
  EXPECT_EQ(profile.layers[1].ms, 0.1);  // no median: the mean
  EXPECT_EQ(profile.layers[2].name, "ends in \\");
  EXPECT_EQ(profile.layers[2].ms, 1e-05);
}

TEST(LayerFile, FilesAreToldByWhatIsInThem) {
  EXPECT_EQ(layer_file_kind(fixture("trex/qat.graph.json")), LayerFileKind::layers);
  EXPECT_EQ(layer_file_kind(fixture("trex/qat.profile.json")), LayerFileKind::profile);
  EXPECT_EQ(layer_file_kind(trex_file("qat", ".timing.json")), LayerFileKind::times);
  for (const char* other :
       {"", "  ", "{}", "[]", "[1]", "model", R"({"model_options": {"Format": "ONNX"}})", R"([{"Name": "GPU"}])"})
    EXPECT_FALSE(layer_file_kind(other)) << other;
}

TEST(LayerFile, WhatIsWrongIsNamed) {
  EXPECT_NE(expect_error("{\"Layers\": 1}").find("Layers: an array expected"), std::string::npos);
  EXPECT_NE(expect_error("{\"Layers\": []}").find("lists no layer"), std::string::npos);
  EXPECT_NE(expect_error("{\"Layers\": [1]}").find("layer 0"), std::string::npos);
  EXPECT_NE(expect_error("{\"Layers\": [{\"Name\": 7}]}").find("Name: a string expected"), std::string::npos);
  EXPECT_NE(
      expect_error(concat(R"({"Layers": [)", layer("a", "Conv", tensor("x", "-2", "\"Format\": \"FP32\""), ""), "]}"))
          .find("no size"),
      std::string::npos);
  EXPECT_NE(
      expect_error(concat(R"({"Layers": [)",
                          layer("a", "Conv", tensor("x", "1000000000000,1000000000000", "\"Format\": \"FP32\""), ""),
                          "]}"))
          .find("overflows"),
      std::string::npos);
  EXPECT_NE(expect_error("{\"Layers\": " + std::string(100000, '[')).find("nested too deeply"), std::string::npos);
  EXPECT_NE(expect_error(fixture("trex/qat.graph.json").substr(0, 9000)).find("is damaged"), std::string::npos);
  EXPECT_THROW(read_layer_profile(R"([{"count": 1}])"), Error);
  EXPECT_THROW(read_layer_profile(R"([{"count": 1}, {"name": "a", "averageMs": -1}])"), Error);
  EXPECT_THROW(read_layer_profile(R"([{"count": 1}, {"name": "a", "timeMs": 1}])"), Error);
  EXPECT_THROW(read_layer_profile(R"([{"count": 1}, {"averageMs": 1}])"), Error);
  EXPECT_THROW(read_layer_profile(R"([{"count": 1}, {"name": "a", "averageMs": 1e300}])"), Error);
}

const std::string kProfile =
    R"([{"count": 1}, {"name": "a", "averageMs": 1}, {"name": "a", "averageMs": 2}, {"name": "z", "averageMs": 4}])";
std::string two_layers() {
  return concat(R"({"Layers": [)", layer("a", "Convolution", half("x"), half("m")), ",",
                layer("a", "Convolution", half("m"), half("y")), "]}");
}
std::string error_of(const std::vector<LayerFile>& files, ErrorKind kind) {
  try {
    engines_of(files);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(LayerEngines, AProfileJoinsByNameAndLayersOfOneNameTakeItsTimesInOrder) {
  const auto engines = engines_of({{"dir/net.graph.json", two_layers()}, {"p.json", kProfile}});
  ASSERT_EQ(engines.size(), 1u);
  EXPECT_EQ(engines[0].name, "net");
  ASSERT_EQ(engines[0].layers.size(), 3u);
  EXPECT_EQ(engines[0].layers[0].ms, 1);
  EXPECT_EQ(engines[0].layers[1].ms, 2);
  EXPECT_EQ(engines[0].layers[2].name, "z");  // not in the layer information: its time counts all the same
  ASSERT_EQ(engines[0].notes.size(), 1u);
  EXPECT_NE(engines[0].notes[0].find("1 of 3 layers in the profile"), std::string::npos);
}

TEST(LayerEngines, OneEnginesFilesMayStandInAnyOrderAndAProfileMayStandAlone) {
  const auto engines =
      engines_of({{"p.json", kProfile}, {"t.json", fixture("trex/fp32.timing.json")}, {"net.json", two_layers()}});
  ASSERT_EQ(engines.size(), 1u);
  EXPECT_EQ(engines[0].name, "net");
  EXPECT_EQ(engines[0].layers[1].ms, 2);
  EXPECT_EQ(engines[0].runs, 1600);
  const auto alone = engines_of({{"p.profile.json", kProfile}, {"q.json", kProfile}});
  ASSERT_EQ(alone.size(), 2u);
  EXPECT_EQ(alone[0].name, "p");
  EXPECT_EQ(alone[0].layers.size(), 3u);
}

TEST(LayerEngines, MistakesAreNamed) {
  const LayerFile layers{"a.json", two_layers()}, profile{"p.json", kProfile},
      times{"t.json", fixture("trex/fp32.timing.json")};
  EXPECT_NE(error_of({layers, profile, {"q.json", kProfile}}, ErrorKind::usage)
                .find("p.json and q.json are both layer profiles"),
            std::string::npos);
  EXPECT_NE(error_of({layers, times, times}, ErrorKind::usage).find("both files of times"), std::string::npos);
  EXPECT_NE(error_of({profile, layers, {"b.json", two_layers()}}, ErrorKind::usage).find("p.json belongs to no engine"),
            std::string::npos);
  EXPECT_NE(error_of({times}, ErrorKind::usage).find("belongs to no engine"), std::string::npos);
  EXPECT_NE(error_of({layers, {"p.json", R"([{"count": 1}, {"name": "other", "averageMs": 1}])"}}, ErrorKind::bad_file)
                .find("none of its 1 names, 'other' the first"),
            std::string::npos);
  EXPECT_NE(error_of({layers, {"m.json", R"({"model_options": 1})"}}, ErrorKind::bad_file)
                .find("m.json: it is neither a plan nor"),
            std::string::npos);
}

TEST(LayerEngines, DamagedFilesEndInAnErrorAndWhatIsReadIsExplained) {
  const std::string files[] = {
      concat(R"({"Layers": [)", layer("c", "CaskConvolution", half("x"), half("m"), kConv), ",",
             layer("q", "Reformat", half("m"), tensor("q", "1,64,8,8", R"("Format/Datatype": "Row major Int8 format")"),
                   R"(, "Origin": "QDQ")"),
             ",",
             layer("d", "CaskConvolution", tensor("q", "1,64,8,8", R"("Datatype": "Int8")") + "," + half("m"),
                   half("y"), kConv),
             R"(], "Bindings": ["x", "y"]})"),
      R"([{"count": 3}, {"name": "c", "timeMs": 1.5, "averageMs": 0.5, "medianMs": 0.5, "percentage": 10},
 {"name": "q", "averageMs": 0.25}, {"name": "d "e" \f", "averageMs": 1.25}])",
      R"([{"startEnqMs": 1.5, "endEnqMs": 2, "h2dMs": 0, "computeMs": 1.9, "d2hMs": 0, "latencyMs": 1.9},
 {"startEnqMs": 2.5, "endEnqMs": 3, "h2dMs": 0, "computeMs": 2.1, "d2hMs": 0, "latencyMs": 2.1}])"};
  const std::string pieces[] = {"\"",   "\\",   "{",          "}",    "[",     "]",
                                ",",    ":",    "null",       "-1",   "1e999", "9223372036854775807",
                                "\x1f", "\xff", "\"Name\": ", "true", "\"\"",  " + "};
  std::mt19937 random(7);
  auto pick = [&](size_t n) { return n ? size_t(random() % n) : 0; };
  int read = 0, refused = 0;
  for (int i = 0; i < 6000; ++i) {
    std::vector<LayerFile> mutated;
    for (const std::string& file : files) mutated.push_back({"f.json", file});
    for (size_t k = pick(4) + 1; k-- > 0;) {
      std::string& text = mutated[pick(3)].text;
      switch (pick(5)) {
        case 0: text.insert(pick(text.size() + 1), pieces[pick(std::size(pieces))]); break;
        case 1: text.erase(pick(text.size()), pick(20)); break;
        case 2:
          if (!text.empty()) text[pick(text.size())] = char(random());
          break;
        case 3:
          if (pick(8) == 0) text.resize(pick(text.size() + 1));
          break;
        default: {
          const size_t at = pick(text.size()), length = pick(60);
          text.insert(pick(text.size()), text.substr(at, length));
        }
      }
    }
    try {
      for (const EngineLayers& engine : engines_of(mutated)) {
        const Explanation e = explain(engine);
        for (const Finding& f : e.findings) {
          if (f.gain_share) { ASSERT_TRUE(*f.gain_share >= 0 && *f.gain_share <= 1) << f.id; }
        }
        ASSERT_FALSE(text_of(e).empty());
      }
      ++read;
    } catch (const Error& error) {
      ASSERT_TRUE(error.kind() == ErrorKind::bad_file || error.kind() == ErrorKind::usage) << error.what();
      ++refused;
    }
  }
  EXPECT_GT(read, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace temper
