// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/support/inventory.h"

#include "backends/cuda/support/compiler.h"

namespace temper::cuda {

namespace {

std::string dotted(int version) { return concat(version / 1000, '.', version % 1000 / 10); }

// `examine` returns the version and the path; what it throws is the problem.
template <class Examine>
LibraryFinding find(std::string_view name, Examine&& examine) {
  LibraryFinding finding{std::string(name), {}, {}, {}};
  try {
    examine(finding);
  } catch (const Error& error) { finding.problem = error.what(); }
  return finding;
}

}  // namespace

Inventory take_inventory(const LibrarySearch& search) {
  Inventory out;
  int driver_version = 0;
  out.libraries.push_back(find("NVIDIA driver", [&](LibraryFinding& finding) {
    const auto driver = Driver::open(search);
    driver_version = driver->version();
    finding.version = "CUDA " + dotted(driver_version);
    finding.path = driver->path();
    out.gpus = driver->gpus();
  }));
  out.libraries.push_back(find("NVML", [&](LibraryFinding& finding) {
    const Nvml nvml(search);
    finding.version = "driver " + nvml.driver_version();
    finding.path = nvml.path();
    for (const GpuInfo& gpu : out.gpus) out.states.push_back(nvml.state(gpu.pci_bus_id));
  }));
  out.states.resize(out.gpus.size());
  out.libraries.push_back(find("NVRTC", [&](LibraryFinding& finding) {
    const Compiler compiler(search, "");
    finding.version = compiler.version();
    finding.path = compiler.path();
    const Compiler fits(search, "", driver_version);
    for (const GpuInfo& gpu : out.gpus) {
      std::string& why = out.why_no_plans.emplace_back(gpu.why_too_old());
      if (!why.empty()) continue;
      if (fits.knows(gpu.architecture())) continue;
      why = concat("it does not compile for ", gpu.name, " (", gpu.architecture(),
                   "): install a newer one ('pip install -U nvidia-cuda-nvrtc') and name the site-packages folder with "
                   "--cuda-path");
      finding.problem += concat(finding.problem.empty() ? "" : "; ", why);
      why = concat("NVRTC ", finding.version, ": ", why);
    }
  }));
  out.why_no_plans.resize(out.gpus.size(), out.libraries.back().problem);
  auto library = [&](std::string_view name, const std::vector<std::string>& files, std::string_view purpose,
                     const char* symbol, std::string_view wheel, auto&& version_text) {
    out.libraries.push_back(find(name, [&](LibraryFinding& finding) {
      const Library opened = Library::open(files, search, purpose,
                                           concat("install NVIDIA's package of it, or 'pip install ", wheel,
                                                  "' and name the site-packages folder with --cuda-path"));
      size_t (*version)() = nullptr;
      opened.bind(version, symbol);
      finding.version = version_text(int64_t(version()));
      finding.path = opened.path();
    }));
  };
  library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"}, "matrix products by NVIDIA's library",
          "cublasLtGetVersion", "nvidia-cublas",
          [](int64_t v) { return concat(v / 10000, '.', v % 10000 / 100, '.', v % 100); });
  library("cuDNN", {"libcudnn.so.9"}, "convolutions by NVIDIA's library", "cudnnGetVersion", "nvidia-cudnn-cu13",
          [](int64_t v) { return concat(v / 10000, '.', v % 10000 / 100, '.', v % 100); });
  return out;
}

}  // namespace temper::cuda
