// SPDX-License-Identifier: Apache-2.0
// Tells an op enough of its node to decide whether a slice of the batch may be computed by itself.
#pragma once
#include "graph/tensor.h"

namespace temper {

// A node whose inputs may carry the batch as their first axis. Shapes are concrete.
class BatchedNode {
 public:
  virtual size_t inputs() const = 0;
  virtual size_t outputs() const = 0;
  virtual bool has(size_t input) const = 0;            // false for an input that is left out
  virtual bool is_batched(size_t input) const = 0;     // false for an input that is left out
  virtual const Shape& shape(size_t input) const = 0;  // of one that is there
  virtual const Shape& out() const = 0;                // of the first output

  // Inputs from `first` on broadcast to the output: batched ones must have its rank, others must not touch axis 0.
  bool broadcasts(size_t first) const {
    for (size_t i = first; i < inputs(); ++i) {
      if (shape(i).size() > out().size()) return false;
      if (is_batched(i) ? shape(i).size() != out().size()
                        : shape(i).size() == out().size() && !shape(i).empty() && shape(i)[0] != Dim(1))
        return false;
    }
    return true;
  }

 protected:
  ~BatchedNode() = default;
};

}  // namespace temper
