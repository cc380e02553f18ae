// SPDX-License-Identifier: Apache-2.0
// Threads that work on one thing: the calling thread and workers that wait for it. Each calling thread has workers of
// its own, made when they are first needed and ended with it, so that sessions on several threads never wait for each
// other's.
#pragma once
#include <chrono>

namespace temper {

// The parts of a region, 0 to members - 1, are each run once, by whoever claims it first: worker m starts with part m,
// and who has done his own takes over what nobody has begun. So the caller never waits for a worker that sleeps, or
// that waits for a core; it waits only for parts that were begun.
//
// Parts may wait for each other (barriers inside of libraries do): a region of n parts has n threads. A thread holds
// one unfinished part at most, so while parts are unclaimed there are at least as many threads that hold none; each of
// those is awake or has been woken, and claims one. So every part is begun sooner or later, and a barrier among them is
// passed.
using PartWork = void (*)(void* data, int member);

// A worker that has begun can still lose its core to another process, and then the caller waits for a time slice of the
// scheduler; one that was called and waits for a core can cost the caller its own. So a worker that is late by far, or
// that does not come, rests: the others run independent parts without it for 5 milliseconds, and for twice as long as
// the last time, up to 200, where that is less than a second ago. Parts that work together end the rests.
//
// `independent`: no part waits for another one, so a thread that is inside of a region already may run them one by one.
// `together`: they may, and inside of a region there is one part only (as OpenMP has it where nothing nests).
// A part must not throw: what would leave it ends the program (base/threads.h carries exceptions).
enum class Parts { independent, together };
void run_parts(int members, Parts parts, PartWork part, void* data);

// Makes the workers that run_parts(members, ...) needs. Throws Error{machine} where the system gives no more threads;
// run_parts does so too for parts that work together, and makes do with fewer threads for independent ones.
void reserve_members(int members);

// Of the part that the calling thread runs; 0 of 1 outside of regions.
int this_member();
int member_count();
bool in_region();
// Waits until all parts of the region have come here.
void wait_for_members();

// For tests: called by a worker that has noticed a region, before it claims a part of it. Null: nothing is called.
using WorkerHook = void (*)(int worker);
void set_worker_hook(WorkerHook hook);
// For tests: the clock by which workers are late. Null: the system's.
using TeamClock = std::chrono::steady_clock::time_point (*)();
void set_team_clock(TeamClock clock);

}  // namespace temper
