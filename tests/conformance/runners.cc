// SPDX-License-Identifier: Apache-2.0
#include "runners.h"

#include <onnx/onnx_pb.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "onnx/import.h"
#include "onnx/tensor_proto.h"
#include "onnx/write.h"
#include "optimize/build_engine.h"
#include "runtime/partitions.h"

namespace temper::conformance {

namespace {

Graph load(const std::string& model, const ImportOptions& import, bool passes) {
  Graph graph = import_onnx(model, import).graph;
  PassOptions options;
  options.all_disabled = !passes;
  run_passes(graph, options);
  return graph;
}

std::shared_ptr<const Engine> build_for(Graph graph, bool passes, const std::vector<Tensor>& inputs,
                                        const std::string& device = "cpu") {
  BuildOptions options;
  options.device = device;
  options.threads = 1;
  options.measure = false;
  options.segments = false;
  options.passes.all_disabled = !passes;
  for (size_t i = 0; i < inputs.size() && i < graph.inputs().size(); ++i) {
    const Value& input = graph.value(graph.inputs()[i]);
    if (!input.type.is_concrete()) options.shapes[input.name] = {inputs[i].dims(), inputs[i].dims(), inputs[i].dims()};
  }
  return build_engine(std::move(graph), {}, options);
}

// What the last run had computed beside the device: steps on the CPU or on the scalar reference, and what runs between
// partitions.
std::vector<std::string> on_host(const Session& session) {
  std::vector<std::string> ops;
  const auto add = [&](const Plan& plan) {
    for (const Segment& segment : plan.segments)
      for (const PlanStep& step : segment.steps)
        if (step.tactic == "cuda.host" || step.tactic == "reference") ops.emplace_back(name_of(step.problem.op));
  };
  if (!session.is_partitioned()) {
    add(session.current_plan());
    return ops;
  }
  for (const Partition& partition : session.partitions()) {
    if (partition.plan) add(*partition.plan);
    for (const Partition::Between& between : partition.between)
      if (session.engine().device().backend != "cpu") ops.push_back(between.op);
  }
  return ops;
}

Ran run_graph(const Graph& graph, const std::vector<Tensor>& inputs) {
  Ran ran{run_reference(graph, inputs), {}, {}};
  for (const GraphOutput& output : graph.outputs()) ran.names.push_back(output.name);
  return ran;
}

Ran run_session(const std::shared_ptr<const Engine>& engine, const std::vector<Tensor>& inputs) {
  Session session(engine);
  Ran ran;
  ran.outputs = session.run(inputs);
  for (const auto& output : engine->outputs()) ran.names.push_back(output.name);
  ran.on_host = on_host(session);
  return ran;
}

struct Folder {
  std::string path;
  Folder() {
    path = (std::filesystem::temp_directory_path() / "temper-conformance-XXXXXX").string();
    if (!mkdtemp(path.data())) fail(ErrorKind::machine, "mkdtemp: ", std::strerror(errno));
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

// Another process builds the plan and writes it; this one, which has built nothing, loads and runs it.
Ran run_from_file(const std::string& model, const ImportOptions& import, bool passes,
                  const std::vector<Tensor>& inputs) {
  const Folder folder;
  const std::string plan = folder.path + "/m.plan", trouble = folder.path + "/error";
  const pid_t pid = fork();
  if (pid < 0) fail(ErrorKind::machine, "fork: ", std::strerror(errno));
  if (pid == 0) {
    int status = 0;
    try {
      save_engine(*build_for(import_onnx(model, import).graph, passes, inputs), plan);
    } catch (const Error& error) {
      write_file_atomically(trouble, error.what());
      status = int(error.kind());
    }
    _exit(status);
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid) fail(ErrorKind::machine, "waitpid: ", std::strerror(errno));
  if (!WIFEXITED(status)) fail(ErrorKind::machine, "the build was killed by signal ", WTERMSIG(status));
  if (const int code = WEXITSTATUS(status)) { fail(ErrorKind(code), read_file(trouble)); }
  return run_session(Engine::load(plan), inputs);
}

// A model whose constants are inputs behind its own, and their values.
struct Fed {
  std::string bytes;
  std::vector<Tensor> constants;
};

// The value of a Constant node; nothing where it is none that a tensor of numbers holds.
std::optional<onnx::TensorProto> constant_of(const onnx::NodeProto& node) {
  if (node.op_type() != "Constant" || !node.domain().empty() || node.attribute_size() != 1) return std::nullopt;
  const onnx::AttributeProto& attribute = node.attribute(0);
  const std::string& name = attribute.name();
  if (name == "value") return attribute.t();
  onnx::TensorProto tensor;
  const bool is_list = name == "value_floats" || name == "value_ints";
  if (name == "value_float" || name == "value_floats") {
    tensor.set_data_type(onnx::TensorProto::FLOAT);
    if (is_list) *tensor.mutable_float_data() = attribute.floats();
    else tensor.add_float_data(attribute.f());
  } else if (name == "value_int" || name == "value_ints") {
    tensor.set_data_type(onnx::TensorProto::INT64);
    if (is_list) *tensor.mutable_int64_data() = attribute.ints();
    else tensor.add_int64_data(attribute.i());
  } else {
    return std::nullopt;
  }
  if (is_list) tensor.add_dims(tensor.float_data_size() + tensor.int64_data_size());
  return tensor;
}

// `floats_alone`: integers and booleans stay constants.
Fed feed_constants(const std::string& path, bool floats_alone) {
  onnx::ModelProto model;
  if (!model.ParseFromString(read_file(path))) fail(ErrorKind::bad_file, path, " cannot be parsed");
  onnx::GraphProto& graph = *model.mutable_graph();
  Fed fed;
  std::vector<onnx::ValueInfoProto> infos;
  std::set<std::string> names;
  const auto feed = [&](const std::string& name, const onnx::TensorProto& tensor) {
    if (tensor.data_type() == onnx::TensorProto::STRING) return false;
    Tensor value = tensor_from_proto(tensor, std::nullopt);
    if (floats_alone && !is_float(value.dtype())) return false;
    onnx::ValueInfoProto& info = infos.emplace_back();
    info.set_name(name);
    info.mutable_type()->mutable_tensor_type()->set_elem_type(tensor.data_type());
    auto& shape = *info.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (int64_t dim : value.dims()) shape.add_dim()->set_dim_value(dim);
    fed.constants.push_back(std::move(value));
    names.insert(name);
    return true;
  };
  auto& initializers = *graph.mutable_initializer();
  for (int i = 0; i < initializers.size();)
    if (feed(initializers[i].name(), initializers[i])) initializers.erase(initializers.begin() + i);
    else ++i;
  auto& nodes = *graph.mutable_node();
  for (int i = 0; i < nodes.size();)
    if (const auto tensor = constant_of(nodes[i]); tensor && feed(nodes[i].output(0), *tensor))
      nodes.erase(nodes.begin() + i);
    else ++i;
  // Models of former versions have their initializers among the inputs.
  auto& inputs = *graph.mutable_input();
  for (int i = 0; i < inputs.size();)
    if (names.contains(inputs[i].name())) inputs.erase(inputs.begin() + i);
    else ++i;
  for (const onnx::ValueInfoProto& info : infos) *graph.add_input() = info;
  fed.bytes = model.SerializeAsString();
  return fed;
}

}  // namespace

Runner make_runner(std::string_view mode, bool passes) {
  if (mode == "reference")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return run_graph(load(model, import, passes), inputs);
    };
  if (mode == "cpu" || mode.starts_with("cuda"))
    return [passes, device = std::string(mode)](const std::string& model, const ImportOptions& import,
                                                const std::vector<Tensor>& inputs) {
      return run_session(build_for(import_onnx(model, import).graph, passes, inputs, device), inputs);
    };
  if (mode == "plan")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return run_from_file(model, import, passes, inputs);
    };
  if (mode == "fed" || mode == "fed-data")
    return [passes, floats_alone = mode == "fed-data"](const std::string& model, const ImportOptions& import,
                                                       const std::vector<Tensor>& inputs) {
      const Fed fed = feed_constants(model, floats_alone);
      std::vector<Tensor> all = inputs;
      all.insert(all.end(), fed.constants.begin(), fed.constants.end());
      return run_session(build_for(import_onnx_bytes(fed.bytes, "", import).graph, passes, all), all);
    };
  if (mode == "write")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return run_graph(import_onnx_bytes(onnx_bytes(load(model, import, passes)), "").graph, inputs);
    };
  fail(ErrorKind::usage, "there is no mode '", mode, "'; modes: reference, cpu, cuda:N, plan, fed, fed-data, write");
}

}  // namespace temper::conformance
