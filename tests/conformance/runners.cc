// SPDX-License-Identifier: Apache-2.0
#include "runners.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "onnx/import.h"
#include "onnx/write.h"
#include "optimize/build_engine.h"

namespace temper::conformance {

namespace {

Graph load(const std::string& model, const ImportOptions& import, bool passes) {
  Graph graph = import_onnx(model, import).graph;
  PassOptions options;
  options.all_disabled = !passes;
  run_passes(graph, options);
  return graph;
}

std::shared_ptr<const Engine> build_for(const std::string& model, const ImportOptions& import, bool passes,
                                        const std::vector<Tensor>& inputs, const std::string& device = "cpu") {
  Graph graph = import_onnx(model, import).graph;
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

struct Folder {
  std::string path;
  Folder() {
    path = (std::filesystem::temp_directory_path() / "temper-conformance-XXXXXX").string();
    if (!mkdtemp(path.data())) fail(ErrorKind::machine, "mkdtemp: ", std::strerror(errno));
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

// Another process builds the plan and writes it; this one, which has built nothing, loads and runs it.
std::vector<Tensor> run_from_file(const std::string& model, const ImportOptions& import, bool passes,
                                  const std::vector<Tensor>& inputs) {
  const Folder folder;
  const std::string plan = folder.path + "/m.plan", trouble = folder.path + "/error";
  const pid_t pid = fork();
  if (pid < 0) fail(ErrorKind::machine, "fork: ", std::strerror(errno));
  if (pid == 0) {
    int status = 0;
    try {
      save_engine(*build_for(model, import, passes, inputs), plan);
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
  return Session(Engine::load(plan)).run(inputs);
}

}  // namespace

Runner make_runner(std::string_view mode, bool passes) {
  if (mode == "reference")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return run_reference(load(model, import, passes), inputs);
    };
  if (mode == "cpu")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return Session(build_for(model, import, passes, inputs)).run(inputs);
    };
  if (mode.starts_with("cuda"))
    return [passes, device = std::string(mode)](const std::string& model, const ImportOptions& import,
                                                const std::vector<Tensor>& inputs) {
      return Session(build_for(model, import, passes, inputs, device)).run(inputs);
    };
  if (mode == "plan")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return run_from_file(model, import, passes, inputs);
    };
  if (mode == "write")
    return [passes](const std::string& model, const ImportOptions& import, const std::vector<Tensor>& inputs) {
      return run_reference(import_onnx_bytes(onnx_bytes(load(model, import, passes)), "").graph, inputs);
    };
  fail(ErrorKind::usage, "there is no mode '", mode, "'; modes: reference, cpu, cuda:N, plan, write");
}

}  // namespace temper::conformance
