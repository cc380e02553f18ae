// SPDX-License-Identifier: Apache-2.0
// The queue of a device with memory of its own, as one session sees it: an order of work (a stream), and memory.
// Kernels put their launches into stream(); everything runs in the order in which it was put in, beside the host.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

namespace temper {

class Queue {
 public:
  virtual ~Queue() = default;
  virtual void* stream() const = 0;  // for Buffers::stream
  // The handle that others on the device order their own work by: for CUDA, a CUstream of its primary context.
  virtual void* handle() const = 0;

  // Allocates memory of the device, at least 256-byte aligned, with undefined content. Throws Error{machine} with what
  // is free.
  virtual std::shared_ptr<void> allocate(int64_t bytes) = 0;
  // Allocates pinned memory of the host, which copies can run from and to while the host goes on.
  virtual std::shared_ptr<void> allocate_host(int64_t bytes) = 0;
  // Gives the device's copy of constant bytes: one for equal bytes, however many sessions ask.
  virtual std::shared_ptr<const void> constant(std::span<const std::byte> bytes) = 0;

  // The host's memory must stay as it is until the queue has got there.
  virtual void copy_to_device(void* to, const void* from, int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, int64_t bytes) = 0;
  // Waits until all work is done; errors of kernels surface here.
  virtual void wait() = 0;
  // Whether a fault has taken the device from this process for good, so that every further call fails.
  virtual bool is_lost() noexcept { return false; }

  // A recording (graph capture) keeps what is put in, without running it, and can be run many times. Throws what
  // `put_in` throws; the queue is then as it was before.
  class Recording {
   public:
    virtual ~Recording() = default;
  };
  template <class F>
  std::unique_ptr<Recording> record(F&& put_in) {
    begin_recording();
    try {
      put_in();
    } catch (...) {
      abandon_recording();
      throw;
    }
    return end_recording();
  }
  virtual void replay(const Recording& recording) = 0;

  // A mark is a moment in the order of work (an event).
  class Mark {
   public:
    virtual ~Mark() = default;
  };
  virtual std::unique_ptr<Mark> make_mark() = 0;
  virtual void put_mark(Mark& mark) = 0;
  // The time between two marks, after both were put in and wait() was called.
  virtual double milliseconds(const Mark& from, const Mark& to) = 0;

 protected:
  virtual void begin_recording() = 0;
  virtual std::unique_ptr<Recording> end_recording() = 0;
  virtual void abandon_recording() noexcept = 0;
};

}  // namespace temper
