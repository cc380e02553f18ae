// SPDX-License-Identifier: Apache-2.0
// Each op's way to ONNX and back is under test in the conformance suite (--mode write); here is what it cannot see.
#include "onnx/write.h"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "graph/ops/dequantize.h"
#include "graph/ops/quantize.h"
#include "onnx/import.h"
#include "passes/pass.h"
#include "zoo/zoo.h"

namespace temper {
namespace {

onnx::ModelProto written(const Graph& graph) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(onnx_bytes(graph)));
  return model;
}
onnx::ModelProto written(std::string_view text) { return written(parse_graph(text)); }

std::string ops_of(const onnx::ModelProto& model) {
  std::string out;
  for (const auto& node : model.graph().node()) out += concat(out.empty() ? "" : " ", node.op_type());
  return out;
}

std::string refusal(std::string_view text) {
  try {
    onnx_bytes(parse_graph(text));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    return error.what();
  }
  return "";
}

TEST(OnnxWrite, AChannelConstantThatTheEpilogueAddsFirstIsTheConvolutionsBias) {
  const auto model = written(
      "input %x: f32[n,1,4,4]\n"
      "const %w: f32[2,1,1,1] = [1,2]\n"
      "const %b: f32[2,1,1] = [0.5,-1]\n"
      "%y: f32[n,2,4,4] = conv(%x, %w, %b) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(2) 2=add.f32(0,1) "
      "3=relu.f32(2)\" @\"c\"\n"
      "output \"y\" = %y\n");
  EXPECT_EQ(ops_of(model), "Conv Relu");
  ASSERT_EQ(model.graph().node(0).input_size(), 3);
  EXPECT_EQ(model.graph().node(0).input(2), "b");
  for (const auto& tensor : model.graph().initializer()) EXPECT_EQ(tensor.dims_size(), tensor.name() == "b" ? 1 : 4);
  EXPECT_EQ(model.graph().input(0).type().tensor_type().shape().dim(0).dim_param(), "n");
  EXPECT_EQ(model.graph().node(1).output(0), "y");
}

TEST(OnnxWrite, ProductsOfBf16AreWrittenWithTheirF32Accumulator) {
  const char* text =
      "input %x: bf16[2,2,3,3]\n"
      "input %m: bf16[3,4]\n"
      "const %w: bf16[2,2,1,1] = [1,0.5,-3,2]\n"
      "const %b: f32[2,1,1] = [0.1,-1.3]\n"
      "const %v: bf16[3,4] = [1,2,3,4,5,6,7,8,9,10,11,12]\n"
      "%c: bf16[2,2,3,3] = conv(%x, %w, %b) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(2) 2=add.f32(0,1) "
      "3=relu.f32(2) 4=cast.bf16(3)\" @\"c\"\n"
      "%d: f32[3,3] = matmul(%m, %v) transpose_b=true @\"d\"\n"
      "output \"c\" = %c\n"
      "output \"d\" = %d\n";
  const Graph graph = parse_graph(text);
  EXPECT_EQ(ops_of(written(graph)), "Cast Cast Conv Relu Cast Cast Cast Gemm");
  const std::string path =
      concat(std::filesystem::temp_directory_path().string(), "/temper_write_bf16_", getpid(), ".onnx");
  write_onnx(graph, path);
  const Graph again = import_onnx(path).graph;
  std::filesystem::remove(path);
  std::vector<Tensor> inputs{Tensor(DType::bf16, {2, 2, 3, 3}), Tensor(DType::bf16, {3, 4})};
  for (Tensor& input : inputs)
    for (int64_t i = 0; i < input.count(); ++i) input.data<BFloat16>()[i] = BFloat16(float(i % 7) * 0.37f - 1);
  const auto wanted = run_reference(graph, inputs), got = run_reference(again, inputs);
  ASSERT_EQ(got.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(got[i].same_bits(wanted[i])) << i;
}

TEST(OnnxWrite, ABiasThatALaterStepReadsAgainStaysAnAddition) {
  const auto model = written(
      "input %x: f32[1,1,2,2]\n"
      "const %w: f32[2,1,1,1] = [1,2]\n"
      "const %b: f32[2,1,1] = [0.5,-1]\n"
      "%y: f32[1,2,2,2] = conv(%x, %w, %b) strides=[1,1] dilations=[1,1] pads=[0,0,0,0] epilogue=\"(2) 2=add.f32(0,1) "
      "3=mul.f32(2,1)\" @\"c\"\n"
      "output \"y\" = %y\n");
  EXPECT_EQ(ops_of(model), "Conv Add Mul");
}

TEST(OnnxWrite, NamesOfValuesStayAndOutputsAreNamedOnce) {
  const auto model = written(
      "input %x: f32[2]\n"
      "%hidden: f32[2] = pointwise(%x) program=\"(1) 1=neg.f32(0)\" @\"n\"\n"
      "%inner: f32[2] = pointwise(%hidden) program=\"(1) 1=exp.f32(0)\" @\"n\"\n"
      "output \"a\" = %inner\n"
      "output \"b\" = %inner\n"
      "output \"x again\" = %x\n");
  EXPECT_EQ(ops_of(model), "Neg Exp Identity Identity");
  EXPECT_EQ(model.graph().node(0).output(0), "hidden");
  EXPECT_EQ(model.graph().node(1).output(0), "a");
  EXPECT_EQ(model.graph().node(2).output(0), "b");
  EXPECT_NE(model.graph().node(0).name(), model.graph().node(1).name());
}

TEST(OnnxWrite, SymbolicShapesAreComputedAndFoldAwayWhenReadAgain) {
  const std::string_view text =
      "input %x: f32[n,4,h,w]\n"
      "%s: f32[n,4,floor(h,2),w] = slice(%x) starts=[0,0,0,0] sizes=[n,4,floor(h,2),w] steps=[1,1,2,1] @\"s\"\n"
      "%y: f32[n,4*w,floor(h,2)] = reshape(%s) shape=[n,4*w,floor(h,2)] @\"r\"\n"
      "output \"y\" = %y\n";
  const Graph graph = parse_graph(text);
  const Graph again = import_onnx_bytes(onnx_bytes(graph), "").graph;
  EXPECT_EQ(again.type(again.outputs()[0].value).text(), graph.type(graph.outputs()[0].value).text());
  Tensor x(DType::f32, {2, 4, 5, 3});
  for (int64_t i = 0; i < x.count(); ++i) x.data<float>()[i] = float(i);
  EXPECT_TRUE(run_reference(again, {x})[0].same_bits(run_reference(graph, {x})[0]));
}

TEST(OnnxWrite, QuantizationKeepsTheBitsOfItsScalesAndNamesAZeroPoint) {
  const auto model = written(
      "input %x: f32[2,3]\n"
      "const %s: f32[] = [0.0078740157]\n"
      "%q: i8[2,3] = quantize(%x, %s) @\"q\"\n"
      "%y: f32[2,3] = dequantize(%q, %s) @\"d\"\n"
      "output \"y\" = %y\n");
  EXPECT_EQ(ops_of(model), "QuantizeLinear DequantizeLinear");
  EXPECT_EQ(model.graph().node(0).input(1), model.graph().node(1).input(1));
  EXPECT_EQ(model.graph().node(0).input_size(), 3);
  float scale = 0;
  ASSERT_EQ(model.graph().initializer(0).raw_data().size(), sizeof scale);
  memcpy(&scale, model.graph().initializer(0).raw_data().data(), sizeof scale);
  EXPECT_EQ(scale, 0.0078740157f);
}

TEST(OnnxWrite, QuantizationToFloat8IsReadBackAsItWas) {
  const std::string text =
      "graph \"g\"\ninput %x: f32[2,3]\nconst %s: f32[] = [0.01]\nconst %w: f8e4m3fn[3,2] = [56,64,184,0,1,130]\n"
      "const %t: f32[2] = [0.5,0.25]\n%q: f8e4m3fn[2,3] = quantize(%x, %s) dtype=f8e4m3fn @\"q\"\n"
      "%d: f32[2,3] = dequantize(%q, %s) @\"d\"\n%v: f32[3,2] = dequantize(%w, %t) axis=1 @\"v\"\n"
      "%y: f32[2,2] = matmul(%d, %v) @\"y\"\noutput \"y\" = %y\n";
  const Graph graph = parse_graph(text), again = import_onnx_bytes(onnx_bytes(graph), "").graph;
  int quantized = 0, dequantized = 0;
  for (int32_t n = 0; n < again.node_count(); ++n) {
    quantized += again.node({n}).op.is<ops::Quantize>();
    dequantized += again.node({n}).op.is<ops::Dequantize>();
  }
  EXPECT_EQ(quantized, 1);
  EXPECT_EQ(dequantized, 1);  // that of constants is folded
  const Tensor x = Tensor::of<float>({2, 3}, {1, -0.3f, 0.017f, 100, -0.001f, 2.5f});
  EXPECT_TRUE(run_reference(again, {x})[0].same_bits(run_reference(graph, {x})[0]));
}

TEST(OnnxWrite, GroupsOfChannelsAreAGroupNormalization) {
  const auto model = written(
      "input %x: f32[n,4,3,3]\n%y: f32[n,4,3,3] = normalize(%x) axes=[1,2,3] groups=2 epsilon=0.25 @\"g\"\n"
      "output \"y\" = %y\n");
  EXPECT_EQ(ops_of(model), "GroupNormalization");
  EXPECT_NE(refusal("input %x: f32[n,4,3]\n%y: f32[n,4,3] = normalize(%x) axes=[1,2] groups=2 center=false @\"g\"\n"
                    "output \"y\" = %y\n")
                .find("GroupNormalization"),
            std::string::npos);
}

TEST(OnnxWrite, WhatOnnxCannotSayIsRefusedByName) {
  EXPECT_NE(refusal("input %x: f32[2]\ninput %y: f32[2]\n%z: f32[2] = pointwise(%x, %y) program=\"(2) 2=mod.f32(0,1)\" "
                    "@\"remainder\"\noutput \"z\" = %z\n")
                .find("'remainder'"),
            std::string::npos);
  EXPECT_NE(refusal("input %x: i32[2]\n%z: i32[2] = pointwise(%x) program=\"(1) 1=shift_left.i32(0,0)\" "
                    "@\"signed\"\noutput \"z\" = %z\n")
                .find("signed"),
            std::string::npos);
  EXPECT_NE(refusal("input %x: f64[4]\n%z: f64[4] = normalize(%x) axes=[0] epsilon=0.1 @\"eps\"\noutput \"z\" = %z\n")
                .find("epsilon is 0.1"),
            std::string::npos);
}

TEST(OnnxWrite, OnnxRuntimeGivesTheSameForTheOptimisedZooAsForTheOriginals) {
  const std::string folder = (std::filesystem::temp_directory_path() / concat("temper-write-", getpid())).string();
  std::filesystem::create_directories(folder);
  for (const char* name : {"digits_cnn", "resnet18", "mobilenet_v2"}) {
    const std::string bytes(zoo_model(name));
    Graph graph = import_onnx_bytes(bytes, "").graph;
    run_passes(graph);
    write_file_atomically(folder + "/a.onnx", bytes);
    write_onnx(graph, folder + "/b.onnx");
    write_file_atomically(
        folder + "/compare.py",
        "import sys, numpy as np, onnx, onnxruntime as ort\n"
        "folder = sys.argv[1]\n"
        "onnx.checker.check_model(onnx.load(folder + '/b.onnx'), full_check=True)\n"
        "outs = []\n"
        "for f in 'ab':\n"
        "    s = ort.InferenceSession(f'{folder}/{f}.onnx', providers=['CPUExecutionProvider'])\n"
        "    i = s.get_inputs()[0]\n"
        "    x = np.random.default_rng(1).standard_normal([2 if isinstance(d, str) else d for d in i.shape], "
        "np.float32)\n"
        "    outs.append(s.run(None, {i.name: x}))\n"
        "for a, b in zip(*outs):\n"
        "    assert a.shape == b.shape and np.abs(a - b).max() <= 1e-4 * np.abs(a).max(), np.abs(a - b).max()\n");
    EXPECT_EQ(std::system(concat("'" TEMPER_PYTHON "' '", folder, "/compare.py' '", folder, "'").c_str()), 0) << name;
  }
  std::filesystem::remove_all(folder);
}

TEST(OnnxWrite, WeightsInBlocksAreDequantizeLinearOfAsFewBitsAsHoldThem) {
  const auto with = [](const char* type, const char* numbers, const char* zero) {
    return concat("input %x: f32[n,4]\nconst %w: ", type, "[4,1] = [", numbers, "]\nconst %s: f32[2,1] = [0.5,2]\n",
                  *zero ? concat("const %z: f32[2,1] = [", zero, "]\n") : "", "%f: f32[4,1] = dequantize_blocks(%w, %s",
                  *zero ? ", %z" : "", ") block_rows=2\n%y: f32[n,1] = matmul(%x, %f)\noutput \"y\" = %y\n");
  };
  const auto type_of_weights = [](const onnx::ModelProto& model) {
    for (const auto& tensor : model.graph().initializer())
      if (tensor.name() == model.graph().node(0).input(0)) return tensor.data_type();
    return 0;
  };
  const auto small = written(with("i8", "-8,7,0,1", ""));
  EXPECT_EQ(ops_of(small), "DequantizeLinear MatMul");
  EXPECT_EQ(type_of_weights(small), onnx::TensorProto::INT4);
  EXPECT_EQ(small.graph().node(0).input_size(), 2);
  EXPECT_EQ(type_of_weights(written(with("i8", "-8,8,0,1", ""))), onnx::TensorProto::INT8);
  EXPECT_EQ(type_of_weights(written(with("u8", "0,15,0,1", "8,3"))), onnx::TensorProto::UINT4);
  EXPECT_EQ(type_of_weights(written(with("u8", "0,15,0,1", "16,3"))), onnx::TensorProto::UINT8);
  EXPECT_NE(refusal(with("u8", "0,15,0,1", "7.5,3")).find("a zero point of 7.5"), std::string::npos);
  EXPECT_NE(refusal("const %w: i8[4,4] = [1,2,3,4,5,6,7,8,1,2,3,4,5,6,7,8]\nconst %s: f32[2,2] = [1,2,3,4]\n"
                    "%f: f32[4,4] = dequantize_blocks(%w, %s) block_rows=2 block_columns=2\noutput \"f\" = %f\n")
                .find("blocks of 2 x 2"),
            std::string::npos);
}

TEST(OnnxWrite, AnAxisThatIsASumOfOthersIsWrittenAsOne) {
  const auto model = written(
      "input %x: f32[a,b]\ninput %y: f32[a+b,2*a]\n%z: f32[a,b] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n"
      "output \"z\" = %z\n");
  const auto& shape = model.graph().input(1).type().tensor_type().shape();
  EXPECT_EQ(shape.dim(0).dim_param(), "a+b");
  EXPECT_FALSE(shape.dim(1).has_dim_param());
}

}  // namespace
}  // namespace temper
