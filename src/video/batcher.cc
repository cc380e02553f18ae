// SPDX-License-Identifier: Apache-2.0
#include "video/batcher.h"

#include <algorithm>

namespace temper::video {

void Batcher::set_wait(std::optional<std::chrono::milliseconds> wait) {
  const std::lock_guard lock(mutex_);
  wait_ = wait;
}

void Batcher::set_patient(bool patient) {
  const std::lock_guard lock(mutex_);
  patient_ = patient;
  changed_.notify_all();
}

void Batcher::join(Seat& seat) {
  const std::lock_guard lock(mutex_);
  seats_.push_back(&seat);
}

void Batcher::leave(Seat& seat) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !seat.taken; });
  seats_.erase(std::remove(seats_.begin(), seats_.end(), &seat), seats_.end());
  changed_.notify_all();
}

void Batcher::set_active(Seat& seat, bool active) {
  const std::lock_guard lock(mutex_);
  seat.active = active;
  seat.away = false;
  changed_.notify_all();
}

void Batcher::set_flushing(Seat& seat, bool flushing) {
  const std::lock_guard lock(mutex_);
  seat.flushing = flushing;
  seat.away = false;
  changed_.notify_all();
}

bool Batcher::complete() const {
  return std::all_of(seats_.begin(), seats_.end(), [&](const Seat* seat) {
    return seat->offered || !seat->active || seat->flushing || (seat->away && !patient_);
  });
}

void Batcher::run_offered(std::unique_lock<std::mutex>& lock) {
  std::vector<Seat*> which;
  std::vector<const Sample*> samples;
  for (Seat* const seat : seats_) {
    if (!seat->offered || seat->flushing) continue;
    seat->taken = true;
    which.push_back(seat);
    for (const Sample& sample : *seat->offered) samples.push_back(&sample);
  }
  running_ = true;
  lock.unlock();
  std::vector<Labels> labels;
  std::exception_ptr error;
  try {
    labels = run_(samples);
  } catch (const std::exception&) { error = std::current_exception(); }
  lock.lock();
  running_ = false;
  auto from = labels.begin();
  for (Seat* const seat : which) {
    if (!error) {
      const auto end = from + ptrdiff_t(seat->offered->size());
      seat->labels.assign(std::make_move_iterator(from), std::make_move_iterator(end));
      from = end;
    }
    seat->error = error;
    seat->offered = nullptr;
    seat->taken = false;
    seat->done = true;
    seat->away = true;
  }
  changed_.notify_all();
}

std::optional<std::vector<Labels>> Batcher::label(Seat& seat, const std::vector<Sample>& samples) {
  std::unique_lock lock(mutex_);
  seat.offered = &samples;
  seat.away = false;
  seat.done = false;
  changed_.notify_all();
  std::optional<std::chrono::steady_clock::time_point> deadline;
  if (wait_) deadline = std::chrono::steady_clock::now() + *wait_;
  while (!seat.done) {
    if (seat.flushing && !seat.taken) {
      seat.offered = nullptr;
      return std::nullopt;
    }
    const bool late = deadline && std::chrono::steady_clock::now() >= *deadline;
    if (!running_ && (late || complete())) run_offered(lock);
    else if (running_ || !deadline) changed_.wait(lock);
    else changed_.wait_until(lock, *deadline);
  }
  if (seat.flushing) return std::nullopt;
  if (const std::exception_ptr error = std::exchange(seat.error, nullptr)) std::rethrow_exception(error);
  return std::exchange(seat.labels, {});
}

}  // namespace temper::video
