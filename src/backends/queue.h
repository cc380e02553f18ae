// SPDX-License-Identifier: Apache-2.0
// The queue of a device with memory of its own, as one session sees it: an order of work (a stream), and memory.
// Kernels put their launches into stream(); everything runs in the order in which it was put in, beside the host.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"

namespace temper {

// Error{machine} where the device's memory is not enough for what was asked. The device itself works.
class DeviceFull : public Error {
 public:
  explicit DeviceFull(std::string message) : Error(ErrorKind::machine, std::move(message)) {}
};

class Queue {
 public:
  virtual ~Queue() = default;
  virtual void* stream() const = 0;  // for Buffers::stream
  // The handle that others on the device order their own work by: for CUDA, a CUstream of its primary context.
  virtual void* handle() const = 0;

  // Allocates memory of the device, at least 256-byte aligned, with undefined content. Throws DeviceFull with what is
  // free.
  virtual std::shared_ptr<void> allocate(int64_t bytes) = 0;
  // Allocates pinned memory of the host, which copies can run from and to while the host goes on.
  virtual std::shared_ptr<void> allocate_host(int64_t bytes) = 0;
  // Gives the device's copy of constant bytes: one for equal bytes, however many sessions ask.
  virtual std::shared_ptr<const void> constant(std::span<const std::byte> bytes) = 0;

  // The host's memory must stay as it is until the queue has got there.
  virtual void copy_to_device(void* to, const void* from, int64_t bytes) = 0;
  virtual void copy_to_host(void* to, const void* from, int64_t bytes) = 0;
  virtual void copy_on_device(void* to, const void* from, int64_t bytes) = 0;
  // Order beside the work of others: `stream` is a stream of theirs on the same device and in the same context (a
  // CUstream), null its default stream. is_captured: work put into it goes into a graph now. wait_for: what is put in
  // from now on waits for what `stream` holds by now. let_wait: what is put into `stream` from now on waits for what is
  // here by now. Neither waits on the host.
  virtual bool is_captured(void* stream) = 0;
  virtual void wait_for(void* stream) = 0;
  virtual void let_wait(void* stream) = 0;
  // Waits until all work is done; errors of kernels surface here.
  virtual void wait() = 0;
  // Whether a fault has taken the device from this process for good, so that every further call fails.
  virtual bool is_lost() noexcept { return false; }

  // Work that was captured as `put_in` put it in: it has not run, and can be launched many times. Nothing else of the
  // process notices: other threads may allocate, and wait for the device. capture() throws what `put_in` throws; the
  // queue is then as it was before.
  class Capture {
   public:
    virtual ~Capture() = default;
  };
  template <class F>
  std::unique_ptr<Capture> capture(F&& put_in) {
    begin_capture();
    try {
      put_in();
    } catch (...) {
      abandon_capture();
      throw;
    }
    return end_capture();
  }
  virtual void launch(const Capture& capture) = 0;

  // An event: a place in the order of work.
  class Event {
   public:
    virtual ~Event() = default;
  };
  virtual std::unique_ptr<Event> make_event() = 0;
  virtual void record(Event& event) = 0;
  // The time between two events, after both were recorded and wait() was called.
  virtual double milliseconds(const Event& from, const Event& to) = 0;

 protected:
  virtual void begin_capture() = 0;
  virtual std::unique_ptr<Capture> end_capture() = 0;
  virtual void abandon_capture() noexcept = 0;
};

}  // namespace temper
