// SPDX-License-Identifier: Apache-2.0
// Weights that lie beside the model: what becomes of their file after the import never matters.
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "../plan/helpers.h"
#include "onnx/import.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class ExternalData : public ::testing::Test {
 protected:
  ExternalData()
      : folder_(fs::temp_directory_path() / concat("temper-external-", int64_t(getpid()), "-",
                                                   ::testing::UnitTest::GetInstance()->current_test_info()->name())),
        model_((folder_ / "m.onnx").string()),
        data_((folder_ / "w.data").string()),
        w_(noise({256, 512}, 1)) {
    fs::create_directories(folder_);
  }
  ~ExternalData() override { fs::remove_all(folder_); }

  static constexpr int64_t kOffset = 8192;
  // y = x W, x: [n,256], with W in w.data; it is given the length where there is one.
  void write_model(bool with_length = true) {
    onnx::ModelProto model;
    model.set_ir_version(8);
    model.add_opset_import()->set_version(17);
    onnx::GraphProto& graph = *model.mutable_graph();
    graph.set_name("g");
    const auto port = [](onnx::ValueInfoProto& value, const char* name, int64_t last) {
      value.set_name(name);
      auto& type = *value.mutable_type()->mutable_tensor_type();
      type.set_elem_type(onnx::TensorProto::FLOAT);
      type.mutable_shape()->add_dim()->set_dim_param("n");
      type.mutable_shape()->add_dim()->set_dim_value(last);
    };
    port(*graph.add_input(), "x", 256);
    port(*graph.add_output(), "y", 512);
    onnx::NodeProto& node = *graph.add_node();
    node.set_op_type("MatMul");
    node.add_input("x");
    node.add_input("W");
    node.add_output("y");
    onnx::TensorProto& weights = *graph.add_initializer();
    weights.set_name("W");
    weights.set_data_type(onnx::TensorProto::FLOAT);
    weights.add_dims(256);
    weights.add_dims(512);
    weights.set_data_location(onnx::TensorProto::EXTERNAL);
    const auto entry = [&](const char* key, const std::string& value) {
      auto& added = *weights.add_external_data();
      added.set_key(key);
      added.set_value(value);
    };
    entry("location", "w.data");
    entry("offset", std::to_string(kOffset));
    if (with_length) entry("length", std::to_string(w_.bytes()));
    std::ofstream file(model_, std::ios::binary);
    model.SerializeToOstream(&file);
  }
  void write_data(const Tensor& weights, char before = 0) {
    std::ofstream file(data_, std::ios::binary);
    file << std::string(size_t(kOffset), before);
    file.write(reinterpret_cast<const char*>(weights.raw().data()), weights.bytes());
  }
  std::vector<Tensor> want(const std::vector<Tensor>& x) const {
    const Graph graph = parse_graph(
        "graph \"g\"\ninput %x: f32[n,256]\nconst %w: f32[256,512] = #0\n%y: f32[n,512] = matmul(%x, %w)\noutput \"y\" "
        "= %y\n",
        std::vector<Tensor>{w_});
    return run_reference(graph, x);
  }

  fs::path folder_;
  std::string model_, data_;
  Tensor w_;
};

TEST_F(ExternalData, MayBeCutAndRewrittenAfterTheImport) {
  const std::vector<Tensor> x{noise({2, 256}, 3)}, later{noise({3, 256}, 4)};
  const std::vector<std::pair<const char*, std::function<void()>>> changes{
      {"cut", [&] { ASSERT_EQ(truncate(data_.c_str(), 0), 0); }},
      {"rewritten", [&] { write_data(noise({256, 512}, 9)); }},
      {"deleted", [&] { fs::remove(data_); }},
  };
  for (const char* device : {"cpu", "reference"})
    for (const auto& [what, change] : changes) {
      SCOPED_TRACE(concat(device, ", ", what));
      write_model();
      write_data(w_);
      BuildOptions options;
      options.device = device;
      options.measure = false;
      options.threads = 1;
      options.shapes["x"] = {{1, 256}, {2, 256}, {4, 256}};
      ImportedModel imported = import_onnx(model_);
      change();
      const auto engine = build_engine(std::move(imported.graph), info_of(device), options);
      expect_close(Session(engine).run(x), want(x), 1e-4);

      write_data(w_);
      const auto built = build_engine(model_, options);
      change();
      Session session(built);
      expect_close(session.run(x), want(x), 1e-4);
      expect_close(session.run(later), want(later), 1e-4);  // planned only now
    }
}

// 1 TiB behind the weights, which takes no room on the disk.
TEST_F(ExternalData, OnlyWhatTensorsNeedIsRead) {
  write_model();
  write_data(w_);
  const std::string before = import_onnx(model_).sha256;
  if (truncate(data_.c_str(), off_t(1) << 40) != 0) GTEST_SKIP() << "no sparse files here";
  EXPECT_EQ(import_onnx(model_).sha256, before);
}

TEST_F(ExternalData, TheHashOfTheModelIsThatOfWhatTensorsNeed) {
  write_model();
  write_data(w_);
  const std::string hash = import_onnx(model_).sha256;
  EXPECT_EQ(import_onnx(model_).sha256, hash);
  write_data(w_, 'x');
  EXPECT_EQ(import_onnx(model_).sha256, hash);
  write_data(noise({256, 512}, 2));
  EXPECT_NE(import_onnx(model_).sha256, hash);
  write_data(w_);
  write_model(false);
  const ImportedModel to_the_end = import_onnx(model_);
  const std::vector<Tensor> x{noise({2, 256}, 3)};
  expect_close(run_reference(to_the_end.graph, x), want(x), 1e-4);
}

}  // namespace
}  // namespace temper
