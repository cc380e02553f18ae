// SPDX-License-Identifier: Apache-2.0
// THE list of the GPU's tactics and recipes, the likeliest first: that is the order used when nothing may be measured.
#include "backends/backend.h"
#include "backends/cuda/bundle.h"
#include "backends/cuda/copy/copy.h"
#include "backends/cuda/preload.h"
#include "backends/cuda/recipe_tactic.h"
#include "backends/cuda/support/serve_kernels.h"

namespace temper {

namespace cuda {
extern const Recipe pointwise_recipe, reduce_recipe, softmax_recipe, normalize_recipe, pool_recipe, transpose_recipe,
    slice_recipe, broadcast_recipe, concat_recipe, resize_recipe, matmul_recipe, conv_first_recipe,
    conv_first_wgmma_recipe, conv_first_columns_recipe, conv_depthwise_matrix_recipe, conv_depthwise_recipe,
    conv_direct_recipe, conv_gemm_recipe, arg_reduce_recipe, pad_recipe, gather_recipe, grid_sample_recipe,
    roi_align_recipe, lrn_recipe, conv_pipeline_recipe, conv_chain_recipe, conv_shortcut_recipe, matmul_pipeline_recipe,
    matmul_gated_recipe, matmul_rows_recipe, attention_one_recipe, attention_hopper_recipe, attention_recipe,
    recurrent_cluster_recipe, recurrent_recipe, scatter_recipe, append_recipe, sample_recipe, topk_recipe,
    cumulative_recipe, range_recipe, nonzero_recipe, nms_recipe, unique_recipe;
}
extern const Tactic cuda_conv_cudnn, cuda_matmul_cublaslt, cuda_matmul_cublaslt_int8, cuda_conv_cublaslt_int8,
    cuda_host;

namespace {

// A tactic, and the recipe that it was made of; null for those that are not made of one.
struct Listed {
  const Tactic* tactic;
  const cuda::Recipe* recipe = nullptr;
};
template <const cuda::Recipe& recipe>
constexpr Listed made_of{&cuda::recipe_tactic<recipe>, &recipe};

const Listed list[] = {
    {&cuda_conv_cudnn},
    made_of<cuda::conv_pipeline_recipe>,
    made_of<cuda::conv_chain_recipe>,
    made_of<cuda::conv_shortcut_recipe>,
    made_of<cuda::conv_gemm_recipe>,
    made_of<cuda::conv_first_columns_recipe>,
    made_of<cuda::conv_first_wgmma_recipe>,
    made_of<cuda::conv_first_recipe>,
    made_of<cuda::conv_depthwise_matrix_recipe>,
    made_of<cuda::conv_depthwise_recipe>,
    made_of<cuda::conv_direct_recipe>,
    {&cuda_conv_cublaslt_int8},
    made_of<cuda::matmul_rows_recipe>,
    {&cuda_matmul_cublaslt},
    made_of<cuda::matmul_pipeline_recipe>,
    made_of<cuda::matmul_gated_recipe>,
    made_of<cuda::matmul_recipe>,
    {&cuda_matmul_cublaslt_int8},
    made_of<cuda::attention_one_recipe>,
    made_of<cuda::attention_hopper_recipe>,
    made_of<cuda::attention_recipe>,
    made_of<cuda::recurrent_cluster_recipe>,
    made_of<cuda::recurrent_recipe>,
    made_of<cuda::pool_recipe>,
    made_of<cuda::pointwise_recipe>,
    made_of<cuda::reduce_recipe>,
    made_of<cuda::softmax_recipe>,
    made_of<cuda::normalize_recipe>,
    made_of<cuda::arg_reduce_recipe>,
    made_of<cuda::transpose_recipe>,
    made_of<cuda::concat_recipe>,
    made_of<cuda::slice_recipe>,
    made_of<cuda::pad_recipe>,
    made_of<cuda::gather_recipe>,
    made_of<cuda::scatter_recipe>,
    made_of<cuda::append_recipe>,
    made_of<cuda::topk_recipe>,
    made_of<cuda::sample_recipe>,
    made_of<cuda::cumulative_recipe>,
    made_of<cuda::range_recipe>,
    made_of<cuda::nonzero_recipe>,
    made_of<cuda::nms_recipe>,
    made_of<cuda::unique_recipe>,
    made_of<cuda::broadcast_recipe>,
    made_of<cuda::resize_recipe>,
    made_of<cuda::grid_sample_recipe>,
    made_of<cuda::roi_align_recipe>,
    made_of<cuda::lrn_recipe>,
    {&cuda_host},
};

std::span<const Tactic* const> cuda_tactics() {
  static const std::vector<const Tactic*> tactics = [] {
    std::vector<const Tactic*> all;
    for (const Listed& listed : list) all.push_back(listed.tactic);
    return all;
  }();
  return tactics;
}

}  // namespace

std::span<const cuda::Recipe* const> cuda::recipes() {
  static const std::vector<const Recipe*> recipes = [] {
    std::vector<const Recipe*> all;
    for (const Listed& listed : list)
      if (listed.recipe) all.push_back(listed.recipe);
    return all;
  }();
  return recipes;
}

static Device cuda_device(int ordinal, const DeviceSettings& settings) {
  const auto machine = cuda::Machine::open(ordinal, {settings.library_folders}, settings.cuda_context);
  const cuda::GpuInfo& gpu = machine->gpu()->info();
  Device device;
  device.backend = "cuda";
  device.architecture = gpu.architecture();
  // Cubins are for the architecture, times for this very model of GPU.
  device.fingerprint = concat("cuda ", gpu.name, ' ', device.architecture, ' ', gpu.sms, " multiprocessors");
  device.gpu = machine;
  return device;
}

static cuda::Recipe::Work reorder_work(const Reorder& reorder) {
  cuda::Recipe::Work work;
  work.jobs = cuda::reorder_jobs(reorder.type, reorder.from, reorder.to);
  return work;
}

extern const Backend cuda_backend;
const Backend cuda_backend{"cuda",
                           cuda_device,
                           cuda_tactics,
                           [](const Reorder& reorder, const Device& device) {
                             return cuda::make_bundle(reorder_work(reorder).jobs, device.gpu->compiler(),
                                                      device.architecture);
                           },
                           [](const Reorder& reorder, std::span<const std::byte> code, const Device& device) {
                             return cuda::make_kernel(reorder_work(reorder), {{}, code}, device);
                           },
                           cuda::make_queue,
                           cuda::preload,
                           [](const Device& device, std::vector<std::string> command, int processes) {
                             command.emplace_back(cuda::kServeKernels);
                             return device.gpu->compiler().compile_in(std::move(command), processes);
                           },
                           true,
                           true};

}  // namespace temper
