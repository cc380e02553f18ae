// SPDX-License-Identifier: Apache-2.0
// Joins frames of several streams to batches: each stream has a thread, which offers frames and waits for their labels,
// and one of those that wait runs what all have offered.
#pragma once
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "video/labeller.h"

namespace temper::video {

// A stream's place; what is in it belongs to the Batcher that it has joined.
struct Seat {
  bool active = false;    // frames are to come: others wait for them
  bool flushing = false;  // nobody waits
  const std::vector<Sample>* offered = nullptr;
  bool away = false;   // with labels of earlier frames: what it does with them may take as long as it likes
  bool taken = false;  // by a run that is on its way
  bool done = false;
  std::vector<Labels> labels;
  std::exception_ptr error;
};

class Batcher {
 public:
  using Run = std::function<std::vector<Labels>(const std::vector<const Sample*>&)>;
  // `run` is called by one thread at a time.
  explicit Batcher(Run run) : run_(std::move(run)) {}

  // How long frames wait for those of other streams; nothing: as long as it takes.
  void set_wait(std::optional<std::chrono::milliseconds> wait);
  // Whether streams that are away are waited for, as at first. A pipeline that pauses keeps them where they are, and
  // needs a frame of each of the others.
  void set_patient(bool patient);
  // Batches have the streams in the order in which they joined.
  void join(Seat& seat);
  void leave(Seat& seat);
  void set_active(Seat& seat, bool active);
  void set_flushing(Seat& seat, bool flushing);

  // One for each sample. Nothing where the stream is flushed meanwhile. Throws what the run throws, in each stream
  // whose frames were in it.
  std::optional<std::vector<Labels>> label(Seat& seat, const std::vector<Sample>& samples);

 private:
  const Run run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::milliseconds> wait_;
  std::vector<Seat*> seats_;
  bool running_ = false, patient_ = true;

  bool complete() const;
  void run_offered(std::unique_lock<std::mutex>& lock);
};

}  // namespace temper::video
