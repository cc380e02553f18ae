// SPDX-License-Identifier: Apache-2.0
// A cuBLASLt for the scripted GPUs that multiplies i8, as NVIDIA documents what it takes: both operands with what is
// summed side by side, sizes in multiples of 4, alpha and beta of i32. It has two algorithms, 7 and 8; the second fills
// its workspace.
#pragma once
#include <deque>
#include <map>

#include "backends/cuda/support/cublaslt.h"
#include "scripted_gpu.h"

namespace temper::testing {

class ScriptedCublasLt {
 public:
  static constexpr size_t kWorkspace = 4096;
  static constexpr int kVersion = 130200;

  static cuda::CublasLtApi api() {
    cuda::CublasLtApi a;
    a.version = [] { return size_t(kVersion); };
    a.status_name = [](cuda::CublasStatus) { return "a scripted status"; };
    a.create = [](cuda::CublasLtHandle* handle) { return *handle = reinterpret_cast<cuda::CublasLtHandle>(8), 0; };
    a.destroy = [](cuda::CublasLtHandle) { return 0; };
    a.create_product = [](cuda::CublasLtObject* made, int compute, int scale) {
      return *made = new Product{compute, scale, {}}, 0;
    };
    a.destroy_product = [](cuda::CublasLtObject product) { return delete static_cast<Product*>(product), 0; };
    a.set_product = [](cuda::CublasLtObject product, cuda::CublasLtProductAttribute which, const void* value,
                       size_t bytes) {
      std::memcpy(&static_cast<Product*>(product)->attributes[which], value, std::min<size_t>(bytes, 4));
      return 0;
    };
    a.create_matrix = [](cuda::CublasLtObject* made, int type, uint64_t rows, uint64_t columns, int64_t ld) {
      return *made = new Matrix{type, int64_t(rows), int64_t(columns), ld}, 0;
    };
    a.destroy_matrix = [](cuda::CublasLtObject matrix) { return delete static_cast<Matrix*>(matrix), 0; };
    a.set_matrix = [](cuda::CublasLtObject matrix, cuda::CublasLtMatrixAttribute which, const void* value, size_t) {
      Matrix& m = *static_cast<Matrix*>(matrix);
      if (which == cuda::CublasLtMatrixAttribute::batch_count) std::memcpy(&m.batch, value, 4);
      else std::memcpy(&m.batch_stride, value, 8);
      return 0;
    };
    a.create_preference = [](cuda::CublasLtObject* made) { return *made = new int, 0; };
    a.destroy_preference = [](cuda::CublasLtObject made) { return delete static_cast<int*>(made), 0; };
    a.set_preference = [](cuda::CublasLtObject, cuda::CublasLtPreferenceAttribute, const void*, size_t) { return 0; };
    a.heuristics = [](cuda::CublasLtHandle, cuda::CublasLtObject product, cuda::CublasLtObject x,
                      cuda::CublasLtObject y, cuda::CublasLtObject c, cuda::CublasLtObject d, cuda::CublasLtObject,
                      int room, cuda::CublasLtResult* results, int* count) {
      *count = 0;
      if (!takes(product, x, y, c, d)) return cuda::kCublasNotSupported;
      for (uint64_t id : {7, 8}) {
        if (*count >= room) break;
        results[*count] = {};
        results[(*count)++].algorithm.data[0] = id;
      }
      return 0;
    };
    a.algorithm_init = [](cuda::CublasLtHandle, int compute, int scale, int x, int y, int c, int d, int id,
                          cuda::CublasLtAlgorithm* made) {
      *made = {};
      made->data[0] = uint64_t(id);
      const bool known = compute == 72 && scale == kI32 && x == kI8 && y == kI8 && c == kI32 && d == kI32;
      return known && (id == 7 || id == 8) ? 0 : cuda::kCublasNotSupported;
    };
    a.algorithm_check = [](cuda::CublasLtHandle, cuda::CublasLtObject product, cuda::CublasLtObject x,
                           cuda::CublasLtObject y, cuda::CublasLtObject c, cuda::CublasLtObject d,
                           const cuda::CublasLtAlgorithm* algorithm, cuda::CublasLtResult* result) {
      result->workspace = algorithm->data[0] == 8 ? kWorkspace : 0;
      return takes(product, x, y, c, d) ? 0 : cuda::kCublasNotSupported;
    };
    a.algorithm_can = [](const cuda::CublasLtAlgorithm*, int, void* value, size_t bytes, size_t*) {
      return std::memset(value, 0, bytes), 0;
    };
    a.algorithm_set = [](cuda::CublasLtAlgorithm*, cuda::CublasLtAlgorithmAttribute, const void* value, size_t bytes) {
      uint32_t number = 0;  // it has no settings
      std::memcpy(&number, value, bytes);
      return number == 0 ? 0 : cuda::kCublasInvalidValue;
    };
    a.algorithm_get = [](const cuda::CublasLtAlgorithm* algorithm, cuda::CublasLtAlgorithmAttribute which, void* value,
                         size_t bytes, size_t*) {
      std::memset(value, 0, bytes);
      if (which == cuda::CublasLtAlgorithmAttribute::id) std::memcpy(value, &algorithm->data[0], bytes);
      return 0;
    };
    a.matmul = [](cuda::CublasLtHandle, cuda::CublasLtObject product, const void* alpha, const void* x,
                  cuda::CublasLtObject x_matrix, const void* y, cuda::CublasLtObject y_matrix, const void* beta,
                  const void*, cuda::CublasLtObject c_matrix, void* d, cuda::CublasLtObject d_matrix,
                  const cuda::CublasLtAlgorithm* algorithm, void* workspace, size_t bytes, cuda::StreamHandle stream) {
      int32_t one = 0, zero = 1;
      std::memcpy(&one, alpha, 4);
      std::memcpy(&zero, beta, 4);
      const bool fits = bytes == (algorithm->data[0] == 8 ? kWorkspace : 0);
      if (!takes(product, x_matrix, y_matrix, c_matrix, d_matrix) || one != 1 || zero != 0 || !fits)
        return cuda::kCublasInvalidValue;
      static std::deque<Launch> launches;  // a recording calls them again
      launches.push_back({*static_cast<Matrix*>(x_matrix), *static_cast<Matrix*>(y_matrix),
                          *static_cast<Matrix*>(d_matrix), static_cast<const int8_t*>(x), static_cast<const int8_t*>(y),
                          static_cast<int32_t*>(d), workspace, bytes});
      return ScriptedGpus::api().launch_host(
          stream, [](void* launch) { static_cast<Launch*>(launch)->multiply(); }, &launches.back());
    };
    return a;
  }

 private:
  static constexpr int kI8 = 3, kI32 = 10;
  struct Product {
    int compute, scale;
    std::map<cuda::CublasLtProductAttribute, uint32_t> attributes;
  };
  struct Matrix {
    int type;
    int64_t rows, columns, ld;
    int32_t batch = 1;
    int64_t batch_stride = 0;
  };
  struct Launch {
    Matrix a, b, d;  // columns of a and b are summed over
    const int8_t *x, *y;
    int32_t* to;
    void* workspace;
    size_t workspace_bytes;
    void multiply() const {
      if (workspace_bytes) std::memset(workspace, 0xcc, workspace_bytes);
      for (int64_t z = 0; z < d.batch; ++z)
        for (int64_t j = 0; j < d.columns; ++j)
          for (int64_t i = 0; i < d.rows; ++i) {
            int32_t sum = 0;
            for (int64_t l = 0; l < a.rows; ++l)
              sum += x[z * a.batch_stride + i * a.ld + l] * y[z * b.batch_stride + j * b.ld + l];
            to[z * d.batch_stride + j * d.ld + i] = sum;
          }
    }
  };
  static bool takes(cuda::CublasLtObject product, cuda::CublasLtObject x, cuda::CublasLtObject y,
                    cuda::CublasLtObject c_matrix, cuda::CublasLtObject d_matrix) {
    Product& p = *static_cast<Product*>(product);
    const Matrix &a = *static_cast<Matrix*>(x), &b = *static_cast<Matrix*>(y), &c = *static_cast<Matrix*>(c_matrix),
                 &d = *static_cast<Matrix*>(d_matrix);
    using A = cuda::CublasLtProductAttribute;
    return p.compute == 72 && p.scale == kI32 && p.attributes[A::transpose_a] == 1 &&
           p.attributes[A::transpose_b] == 0 && p.attributes[A::epilogue] == 1 && a.type == kI8 && b.type == kI8 &&
           c.type == kI32 && d.type == kI32 && a.rows == b.rows && a.columns == d.rows && b.columns == d.columns &&
           a.rows % 4 == 0 && d.rows % 4 == 0 && a.ld % 4 == 0 && b.ld % 4 == 0 && d.ld % 4 == 0 &&
           a.batch == d.batch && b.batch == d.batch;
  }
};

// A GPU with it, whose own kernels are compiled for the CPU. "cuda:0" while it lives.
class EmulatedMachine {
 public:
  explicit EmulatedMachine(const std::string& emulator) {
    ScriptedGpus::get().reset();
    machines_ = std::make_unique<ScriptedMachines>(cuda::LibrarySearch{{emulator}, false});
    machine_ = cuda::Machine::open(0, {});
    machine_->put_in_place(std::make_unique<const cuda::CublasLt>(machine_->gpu(), ScriptedCublasLt::api()));
  }
  ~EmulatedMachine() {
    machine_ = nullptr;
    machines_ = nullptr;
    EXPECT_EQ(ScriptedGpus::get().misuses, std::vector<std::string>());
    ScriptedGpus::get().reset();
  }
  const std::shared_ptr<const cuda::Machine>& get() const { return machine_; }

 private:
  std::unique_ptr<ScriptedMachines> machines_;
  std::shared_ptr<const cuda::Machine> machine_;
};

}  // namespace temper::testing
