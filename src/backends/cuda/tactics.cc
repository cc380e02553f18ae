// SPDX-License-Identifier: Apache-2.0
// THE list of the GPU's tactics, the likeliest first: that is the order used when nothing may be measured.
#include "backends/backend.h"
#include "backends/cuda/bundle.h"
#include "backends/cuda/copy/copy.h"
#include "backends/cuda/preload.h"
#include "backends/cuda/recipe_tactic.h"

namespace temper {

namespace cuda {
extern const Recipe pointwise_recipe, reduce_recipe, softmax_recipe, normalize_recipe, pool_recipe, transpose_recipe,
    slice_recipe, broadcast_recipe, concat_recipe, resize_recipe, matmul_recipe, conv_first_recipe,
    conv_first_wgmma_recipe, conv_depthwise_recipe, conv_direct_recipe, conv_gemm_recipe, arg_reduce_recipe, pad_recipe,
    gather_recipe, conv_pipeline_recipe, conv_chain_recipe, matmul_pipeline_recipe;
}
extern const Tactic cuda_conv_cudnn, cuda_matmul_cublaslt, cuda_matmul_cublaslt_int8, cuda_conv_cublaslt_int8,
    cuda_host;

static const Tactic* const cuda_tactics[] = {
    &cuda_conv_cudnn,
    &cuda::recipe_tactic<cuda::conv_pipeline_recipe>,
    &cuda::recipe_tactic<cuda::conv_chain_recipe>,
    &cuda::recipe_tactic<cuda::conv_gemm_recipe>,
    &cuda::recipe_tactic<cuda::conv_first_wgmma_recipe>,
    &cuda::recipe_tactic<cuda::conv_first_recipe>,
    &cuda::recipe_tactic<cuda::conv_depthwise_recipe>,
    &cuda::recipe_tactic<cuda::conv_direct_recipe>,
    &cuda_conv_cublaslt_int8,
    &cuda_matmul_cublaslt,
    &cuda::recipe_tactic<cuda::matmul_pipeline_recipe>,
    &cuda::recipe_tactic<cuda::matmul_recipe>,
    &cuda_matmul_cublaslt_int8,
    &cuda::recipe_tactic<cuda::pool_recipe>,
    &cuda::recipe_tactic<cuda::pointwise_recipe>,
    &cuda::recipe_tactic<cuda::reduce_recipe>,
    &cuda::recipe_tactic<cuda::softmax_recipe>,
    &cuda::recipe_tactic<cuda::normalize_recipe>,
    &cuda::recipe_tactic<cuda::arg_reduce_recipe>,
    &cuda::recipe_tactic<cuda::transpose_recipe>,
    &cuda::recipe_tactic<cuda::concat_recipe>,
    &cuda::recipe_tactic<cuda::slice_recipe>,
    &cuda::recipe_tactic<cuda::pad_recipe>,
    &cuda::recipe_tactic<cuda::gather_recipe>,
    &cuda::recipe_tactic<cuda::broadcast_recipe>,
    &cuda::recipe_tactic<cuda::resize_recipe>,
    &cuda_host,
};

static Device cuda_device(int ordinal, const DeviceSettings& settings) {
  const auto machine = cuda::Machine::open(ordinal, {settings.library_folders});
  const cuda::GpuInfo& gpu = machine->gpu()->info();
  Device device;
  device.backend = "cuda";
  device.architecture = gpu.architecture();
  // Cubins are for the architecture, times for this very model of GPU.
  device.fingerprint =
      concat("cuda ", gpu.name, ' ', device.architecture, ' ', gpu.multiprocessors, " multiprocessors");
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
                           [] { return std::span<const Tactic* const>(cuda_tactics); },
                           [](const Reorder& reorder, const Device& device) {
                             return cuda::make_bundle(reorder_work(reorder).jobs, device.gpu->compiler(),
                                                      device.architecture);
                           },
                           [](const Reorder& reorder, std::span<const std::byte> code, const Device& device) {
                             return cuda::make_kernel(reorder_work(reorder), {{}, code}, device);
                           },
                           cuda::make_queue,
                           cuda::preload,
                           true};

}  // namespace temper
