#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows CONTRIBUTING.md in a copy of the tree: adds an op, a GPU kernel and a verb, compiles, links and runs them.

usage: contributing.py ONNX PYTHON VEGA JOBS [op] [kernel] [verb] [--units]     without names all three; ./dev test-contributing

Each part does what the numbered steps of its section say, and no more. It fails where the steps name other files than
those that were touched. The verb prints what the op and the kernel answer. --units compiles the touched files alone, for
a quick look.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import compile_commands
from git_files import ROOT, git_files

LICENSE = "// SPDX-License-Identifier: Apache-2.0\n"


class Tree:
    def __init__(self, folder):
        self.folder, self.touched = folder, set()

    def add(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(LICENSE + text)
        self.touched.add(path)

    def edit(self, path, *changes):
        """Each change: a pattern that the file holds, and what is put behind the first place that matches."""
        target = self.folder / path
        text = target.read_text()
        for pattern, addition in changes:
            found = re.search(pattern, text, re.M)
            if not found:
                sys.exit(f"{path}: the place for a new line is not found ({pattern}); mend tests/contributing.py")
            text = text[:found.end()] + addition + text[found.end():]
        target.write_text(text)
        self.touched.add(path)


def add_op(tree):
    tree.add("src/graph/ops/throwaway.h", """\
// throwaway(x) -> like x: x times `factor`.
#pragma once
#include "graph/fields.h"
#include "graph/infer.h"
#include "graph/onnx_form.h"
#include "graph/op_kind.h"
#include "graph/operations.h"

namespace temper::ops {

struct Throwaway {
  static constexpr std::string_view name = "throwaway";
  static constexpr OpKind op_kind = OpKind::other;
  int64_t factor = 1;

  template <class Self, class F>
  static void fields(Self& op, F&& f) {
    f("factor", op.factor);
  }
  bool operator==(const Throwaway&) const = default;
  std::vector<TensorType> infer(const InferContext& context) const;
  std::vector<Tensor> reference(std::span<const Tensor> inputs, std::span<const TensorType> outputs) const;
  OnnxForm onnx_form() const { return OnnxForm::none("ONNX has no throwaway"); }
  Operations operations(std::span<const TensorType> inputs, std::span<const TensorType> outputs) const;
};

}  // namespace temper::ops
""")
    tree.add("src/graph/ops/throwaway.cc", """\
#include "graph/ops/throwaway.h"

namespace temper::ops {

std::vector<TensorType> Throwaway::infer(const InferContext& context) const {
  context.expect_inputs(1, 1);
  if (context.type(0).dtype != DType::f32) fail(ErrorKind::bad_file, "throwaway of ", context.type(0));
  return {context.type(0)};
}

std::vector<Tensor> Throwaway::reference(std::span<const Tensor> inputs, std::span<const TensorType>) const {
  Tensor out(DType::f32, inputs[0].dims());
  for (int64_t i = 0; i < out.count(); ++i) out.data<float>()[i] = inputs[0].data<float>()[i] * float(factor);
  return {out};
}

Operations Throwaway::operations(std::span<const TensorType>, std::span<const TensorType> outputs) const {
  return {0, element_count(outputs[0])};
}

}  // namespace temper::ops
""")
    tree.edit("src/graph/op.cc",
              (r'#include "graph/ops/softmax\.h"\n', '#include "graph/ops/throwaway.h"\n'),
              (r"  OP\(Softmax\) +\\\n", "  OP(Throwaway)        \\\n"))


def add_kernel(tree):
    tree.add("src/backends/cuda/throwaway/throwaway.cu", """\
// Doubles each element.
#include "backends/cuda/support/memory.cuh"

extern "C" __global__ void __launch_bounds__(256) throwaway(const float* in, float* out, const u64 count) {
  const u64 i = u64(blockIdx.x) * 256 + threadIdx.x;
  if (i < count) out[i] = in[i] * 2;
}
""")
    tree.add("src/backends/cuda/throwaway/throwaway.cc", """\
// A recipe that nothing needs.
#include "backends/cuda/recipe.h"
#include "graph/ops/softmax.h"

namespace temper::cuda {

namespace {

Support supports(const Problem& problem) {
  if (!problem.op.is<ops::Softmax>()) return refused("not a softmax");
  return supported();
}

Recipe::Work work(const Problem& problem, const Config&, const GpuProperties&) {
  const int64_t count = element_count(problem.outputs[0].dims());
  Job job;
  job.entry = "throwaway";
  job.slots = {{Slot::Kind::input, 0, 0}, {Slot::Kind::output, 0, 0}};
  job.source.text = "#include \\"backends/cuda/throwaway/throwaway.cu\\"\\n";
  job.shape.block = {256, 1, 1};
  job.shape.grid = {blocks_for(count, 256), 1, 1};
  ParameterWriter writer;
  job.parameters = writer.put(uint64_t(count)).finish();
  Recipe::Work out;
  out.jobs.push_back(std::move(job));
  return out;
}

}  // namespace

extern const Recipe throwaway_recipe;
const Recipe throwaway_recipe{"cuda.throwaway", 1, supports, same_layout_configs, work};

}  // namespace temper::cuda
""")
    tree.edit("src/backends/cuda/tactics.cc",
              (r"extern const Recipe ", "throwaway_recipe, "),
              (r"made_of<cuda::softmax_recipe>,\n", "    made_of<cuda::throwaway_recipe>,\n"))


RUN_OP = """\
    const Graph graph = parse_graph(
        "graph \\"g\\"\\ninput %x: f32[2]\\n%y: f32[2] = throwaway(%x) factor=3\\noutput \\"y\\" = %y\\n");
    Tensor x(DType::f32, {2});
    x.data<float>()[0] = 1, x.data<float>()[1] = 2;
    const Tensor y = run_reference(graph, {x}).at(0);
    const TensorType type = x.type();
    const Operations made = *operations_of(graph.node({0}).op, std::span(&type, 1), std::span(&type, 1));
    std::printf("op: %g %g, %d operations\\n", double(y.data<float>()[0]), double(y.data<float>()[1]), int(made.all()));
"""
RUN_KERNEL = """\
    const KernelCase line = parse_cases("softmax(f32[3,200]) axis=1\\n").at(0);
    const Problem problem = make_case_problem(line, make_case_inputs(line, 1), 1);
    for (const cuda::Recipe* recipe : cuda::recipes()) {
      if (recipe->name != "cuda.throwaway" || !recipe->supports(problem).yes()) continue;
      const cuda::GpuProperties gpu(cuda::GpuInfo{.major = 8, .minor = 0, .sms = 108, .shared_per_block = 163 << 10});
      const auto job = recipe->work(problem, recipe->configs(problem, gpu).at(0), gpu).jobs.at(0);
      const bool embedded = !cuda::included_texts("#include \\"backends/cuda/throwaway/throwaway.cu\\"").empty();
      std::printf("kernel: %s, %u blocks, text %s\\n", job.entry.c_str(), job.shape.grid[0], embedded ? "embedded" : "missing");
    }
"""
EXPECTED = {"op": "op: 3 6, 2 operations", "kernel": "kernel: throwaway, 3 blocks, text embedded", "verb": "verb: done"}


def add_verb(tree, parts):
    tree.add("src/cli/verbs/throwaway.cc", """\
// temper throwaway: runs what was added beside it.
#include <cstdio>

#include "backends/cuda/recipe.h"
#include "backends/cuda/support/kernel_text.h"
#include "bench/cases.h"
#include "cli/verb.h"
#include "graph/graph.h"
#include "graph/operations.h"

namespace temper::cli {

void add_throwaway(Command& verb, Context&) {
  verb.callback([] {
""" + (RUN_OP if "op" in parts else "") + (RUN_KERNEL if "kernel" in parts else "") + """\
    std::printf("verb: done\\n");
  });
}

}  // namespace temper::cli
""")
    tree.edit("src/cli/verb.h", (r"void add_study\(.*\n", "void add_throwaway(Command& verb, Context& context);\n"))
    tree.edit("src/cli/main.cc", (r"constexpr Verb verbs\[\] = \{\n", '    {"throwaway", "run what was added", kMachine, "temper throwaway", add_throwaway},\n'))


def named_files(section, after=""):
    """The files that the numbered steps of a section name, but for tests and documents."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    text = re.search(rf"^## {re.escape(section)}\n(.*?)(?=^## )", text, re.S | re.M)[1]
    text = text[text.index(after):] if after else text.split("\nOn a GPU")[0]
    steps = re.findall(r"^\d\. (.*?):", text, re.S | re.M)
    return {path.replace("NAME", "throwaway") for step in steps for path in re.findall(r"`(src/[^`]+)`", step)}


SECTIONS = {"op": ("An op", ""), "kernel": ("A tactic", "On a GPU"), "verb": ("A verb", "")}


def compile_units(folder, touched):
    """Compiles by their own commands: as targets they would wait for the libraries that their target links."""
    sources = {str(folder / path) for path in touched if path.endswith(".cc")}
    compiled = set()
    for entry in compile_commands.entries(folder / "build", folder):
        if entry["file"] in sources - compiled:
            print(f"compiling {pathlib.Path(entry['file']).relative_to(folder)}", flush=True)
            subprocess.run(entry["command"], shell=True, cwd=entry["directory"], check=True)
            compiled.add(entry["file"])
    if sources - compiled:
        sys.exit(f"no target compiles {' '.join(sorted(sources - compiled))}")
    print(f"{len(compiled)} units compiled")


def main():
    onnx, python, vega, jobs, *rest = sys.argv[1:]
    units = "--units" in rest
    parts = [part for part in SECTIONS if part in rest] or list(SECTIONS)
    if unknown := set(rest) - set(SECTIONS) - {"--units"}:
        sys.exit(f"unknown: {' '.join(sorted(unknown))}; there are op, kernel, verb and --units")
    if not units and "verb" not in parts:
        parts.append("verb")  # it runs the others
    wrong, touched = [], set()
    with tempfile.TemporaryDirectory(prefix="temper-contributing-") as folder:
        tree = Tree(pathlib.Path(folder))
        for name in git_files():
            (tree.folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree.folder / name)
        for part in parts:
            tree.touched = set()
            {"op": add_op, "kernel": add_kernel, "verb": lambda tree: add_verb(tree, parts)}[part](tree)
            section, after = SECTIONS[part]
            named = named_files(section, after)
            wrong += [f"CONTRIBUTING.md, {section}: no step names {path}, which was touched" for path in sorted(tree.touched - named)]
            wrong += [f"CONTRIBUTING.md, {section}: {path} is named, and was not needed" for path in sorted(named - tree.touched)]
            touched |= tree.touched
        if wrong:
            sys.exit("\n".join(wrong))
        print(f"steps followed: {', '.join(parts)}; files: {' '.join(sorted(touched))}", flush=True)
        subprocess.run(["cmake", "--preset", "release", f"-DTEMPER_ONNX_ROOT={onnx}", f"-DTEMPER_PYTHON={python}", f"-DTEMPER_VEGA={vega}",
                        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"],
                       cwd=tree.folder, check=True, stdout=subprocess.DEVNULL)
        if units:
            compile_units(tree.folder, touched)
            return
        subprocess.run(["cmake", "--build", "build", "-j", jobs, "--target", "temper"], cwd=tree.folder, check=True)
        said = subprocess.run([tree.folder / "build/temper", "throwaway"], check=True, capture_output=True, text=True).stdout.splitlines()
        missing = [EXPECTED[part] for part in parts if EXPECTED[part] not in said]
        print("\n".join(said))
        if missing:
            sys.exit(f"temper throwaway did not say: {'; '.join(missing)}")


if __name__ == "__main__":
    main()
