// SPDX-License-Identifier: Apache-2.0
// Keeps a thread's current GPU, by which a caller's other libraries go, while Temper works on another one
#pragma once

namespace temper {

// A thread has a current GPU, by which PyTorch and others go; work on another one changes that. While this lives it
// may: afterwards the thread has the one it had before.
class KeepCurrentGpu {
 public:
  explicit KeepCurrentGpu(bool of_gpu = true);  // false: nothing is done
  ~KeepCurrentGpu();
  KeepCurrentGpu(const KeepCurrentGpu&) = delete;
  // At once, for what the caller does in between: its callbacks expect the GPU that it has.
  void put_back() const;
  // The CUcontext that the thread had, where it is one of the caller's own (pycuda makes such a one) and no GPU's
  // primary one; null otherwise. Memory and streams of the caller lie in it.
  void* own_context() const;

 private:
  bool keeps_;
  void* before_ = nullptr;  // its context
};

}  // namespace temper
