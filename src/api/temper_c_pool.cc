// SPDX-License-Identifier: Apache-2.0
// The part of the public C API that runs batches on several devices.
#include "api/handle.h"
#include "runtime/pool.h"

using temper::ErrorKind;
using temper::fail;
using temper::KeepCurrentGpu;
using temper::Tensor;
using temper::c_api::expect;
using temper::c_api::guarded;

struct temper_pool : temper::EnginePool {
  using EnginePool::EnginePool;
};

extern "C" {

temper_status temper_pool_create(const temper_engine* engine, const char* devices, temper_pool** pool) {
  return guarded([&] {
    expect(engine, "the engine");
    expect(devices, "the list of devices");
    expect(pool, "the place for the pool");
    const KeepCurrentGpu kept;
    *pool = new temper_pool(temper::engines_on_list(engine->engine, devices));
  });
}

void temper_pool_free(temper_pool* pool) {
  const KeepCurrentGpu kept(pool && pool->of_gpu());
  delete pool;
}

size_t temper_pool_device_count(const temper_pool* pool) { return pool ? pool->pool.size() : 0; }

temper_status temper_pool_device(const temper_pool* pool, size_t index, temper_pool_device_info* info) {
  return guarded([&] {
    expect(pool, "the pool");
    expect(info, "the place for the info");
    if (index >= pool->pool.size())
      fail(ErrorKind::usage, "there is no device ", index, "; the pool has ", pool->pool.size());
    const std::string& loss = pool->pool.loss(index);
    *info = {pool->engines[index]->info().device.c_str(), pool->pool.done()[index],
             loss.empty() ? nullptr : loss.c_str()};
  });
}

temper_status temper_pool_run(temper_pool* pool, const temper_tensor* inputs, size_t batch_count, temper_pool_use use,
                              void* context) {
  return guarded([&] {
    expect(pool, "the pool");
    if (!use) fail(ErrorKind::usage, "the function that uses the outputs is NULL");
    const temper::Engine& engine = *pool->engines[0];
    const size_t count = engine.inputs().size();
    if (batch_count && count) expect(inputs, "the list of inputs");
    std::vector<std::vector<Tensor>> batches;
    for (size_t b = 0; b < batch_count; ++b)
      batches.push_back(temper::with_context([&] { return temper::concat("batch ", b); },
                                             [&] { return temper::c_api::tensors_of(engine, inputs + b * count); }));
    const KeepCurrentGpu kept(pool->of_gpu());
    pool->pool.run(int64_t(batch_count), [&](size_t device, int64_t b) -> temper::Pool::Finish {
      return [b, use, context, outputs = pool->sessions.at(device).run(batches[size_t(b)])] {
        std::vector<temper_tensor> views;
        views.reserve(outputs.size());
        for (const Tensor& output : outputs)
          views.push_back(
              {temper_dtype(output.dtype()), output.dims().size(), output.dims().data(), output.raw().data()});
        if (use(size_t(b), views.data(), views.size(), context)) throw temper::c_api::Cancelled();
      };
    });
  });
}

}  // extern "C"
