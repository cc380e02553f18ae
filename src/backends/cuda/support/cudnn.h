// SPDX-License-Identifier: Apache-2.0
// cuDNN 9's graph API: a convolution with pointwise steps behind it becomes a plan, which is run on a stream.
#pragma once
#include <map>
#include <mutex>
#include <optional>

#include "backends/cuda/support/cudnn_api.h"
#include "backends/cuda/support/driver.h"
#include "graph/tensor.h"

namespace temper::cuda {

struct CudnnValue {
  enum class Where { caller, inside };
  CudnnData type = CudnnData::f32;
  Dims dims, strides;  // strides in elements
  Where where = Where::inside;
  bool operator==(const CudnnValue&) const = default;
};

// y = mode(x) or mode(x, b), computed in float; b is broadcast where its dims are 1.
struct CudnnStep {
  CudnnPointwiseMode mode;
  int x = -1, b = -1, y = -1;
};

// All numbers of values are positions in `values`.
struct CudnnGraph {
  std::vector<CudnnValue> values;
  int x = -1, w = -1, sum = -1;  // sum = cross-correlation of x with w, summed in float
  Dims strides, dilations, pads_before, pads_after;
  std::vector<CudnnStep> steps;
  std::string text() const;
};

// One engine of cuDNN and how its knobs are set. Means the same to one version of cuDNN on one kind of GPU.
struct CudnnChoice {
  int64_t engine = 0;
  std::vector<std::pair<int, int64_t>> knobs;       // kind and value, kinds ascending
  std::string text() const;                         // "engine 10 2:5 13:1"
  static CudnnChoice parse(std::string_view text);  // throws Error{bad_file}
  bool operator==(const CudnnChoice&) const = default;
};

// Which engines may be chosen.
struct CudnnRules {
  bool tf32 = false;                      // f32 convolutions may round their operands to TF32
  int64_t workspace = int64_t(64) << 20;  // bytes, at most
  size_t most = 10, most_of_one = 4;      // choices in all, tries with one engine
};

class CudnnObject {
 public:
  CudnnObject(const CudnnApi& api, CudnnKind kind);
  CudnnObject(CudnnObject&& other) noexcept : api_(other.api_), handle_(std::exchange(other.handle_, nullptr)) {}
  CudnnObject& operator=(CudnnObject&&) = delete;
  ~CudnnObject();
  CudnnDescriptor get() const { return handle_; }

 private:
  const CudnnApi* api_;
  CudnnDescriptor handle_ = nullptr;
};

// Ready to run. Immutable.
class CudnnPlan {
 public:
  int64_t workspace() const { return workspace_; }

 private:
  friend class Cudnn;
  friend class CudnnRun;
  std::vector<CudnnObject> objects_;  // the last is the plan, the others are what it was made from
  std::vector<int64_t> ids_;          // of the values that a run must give addresses of
  int64_t workspace_ = 0;
};

class Cudnn {
 public:
  // Throws Error{unsupported} where cuDNN 9 is missing, with what to install.
  Cudnn(GpuRef gpu, const LibrarySearch& search);
  // Chooses and makes plans for the GPU that cuDNN's own JSON text describes, without one being there (9.8 or later);
  // run() cannot be called. Plans that cuDNN has to compile cannot be made so.
  Cudnn(const LibrarySearch& search, std::string_view device);
  ~Cudnn();
  Cudnn(const Cudnn&) = delete;

  int version() const { return version_; }  // 91900 = 9.19.0
  const std::string& path() const { return path_; }

  // Deterministic engines that have a plan for the graph within the rules, the likeliest first; empty: none. Slow the
  // first time that a graph is asked about.
  std::vector<CudnnChoice> choices(const CudnnGraph& graph, const CudnnRules& rules) const;
  // Throws Error{unsupported} where cuDNN has no such plan.
  std::shared_ptr<const CudnnPlan> plan(const CudnnGraph& graph, const CudnnChoice& choice) const;

 private:
  friend class CudnnRun;
  void open(const LibrarySearch& search);
  void check(CudnnStatus status, std::string_view what) const;
  template <class T>
  void set(const CudnnObject& object, CudnnAttribute attribute, CudnnType type, const std::vector<T>& values) const;
  template <class T>
  void set(const CudnnObject& object, CudnnAttribute attribute, CudnnType type, T value) const {
    set(object, attribute, type, std::vector<T>{value});
  }
  template <class T>
  std::vector<T> get(CudnnDescriptor object, CudnnAttribute attribute, CudnnType type, size_t room) const;
  std::vector<CudnnObject> get_objects(CudnnDescriptor object, CudnnAttribute attribute, CudnnKind kind,
                                       size_t room) const;
  void finish(const CudnnObject& object, std::string_view what) const;
  // Appends the graph's descriptors; the last is the operation graph.
  void describe(const CudnnGraph& graph, std::vector<CudnnObject>& objects) const;
  std::vector<CudnnObject> candidates(CudnnDescriptor graph, int mode) const;
  CudnnChoice choice_of(CudnnDescriptor config) const;
  std::shared_ptr<const CudnnPlan> make_plan(const CudnnGraph& graph, const CudnnChoice& choice) const;

  CudnnApi api_;
  std::string path_;
  int version_ = 0;
  GpuRef gpu_;
  CudnnHandle handle_ = nullptr;
  std::optional<CudnnObject> device_;
  mutable std::mutex mutex_;  // of the handle, which one thread at a time may use, and of what follows
  mutable std::map<std::string, std::vector<CudnnChoice>> choices_;
  mutable std::map<std::string, std::weak_ptr<const CudnnPlan>> plans_;
  mutable std::vector<std::shared_ptr<const CudnnPlan>> recent_;  // made while choosing, and wanted again for timing
};

// A plan with the addresses that it last ran on. One thread at a time.
class CudnnRun {
 public:
  CudnnRun(const Cudnn& cudnn, std::shared_ptr<const CudnnPlan> plan);
  const CudnnPlan& plan() const { return *plan_; }
  // `addresses`: by value of the graph; those that lie inside are not looked at.
  void launch(const Stream& stream, std::span<const DevicePointer> addresses, DevicePointer workspace);

 private:
  const Cudnn& cudnn_;
  std::shared_ptr<const CudnnPlan> plan_;
  std::vector<const void*> pointers_;
  const void* workspace_ = nullptr;
  std::shared_ptr<const CudnnObject> pack_;  // graphs keep those of their addresses
};

}  // namespace temper::cuda
