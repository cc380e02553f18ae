// SPDX-License-Identifier: Apache-2.0
#include "emulator.h"

#include <dlfcn.h>
#include <elf.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

namespace temper::emulator {

namespace {

constexpr size_t kStackBytes = 128 << 10, kSharedBytes = 256 << 10;
// Behind a block's shared memory.
constexpr unsigned char kGuard = 0x5a;
constexpr size_t kGuardBytes = 16 << 10;

void begin_context(ucontext_t& context, unsigned char* stack, void (*function)()) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = kStackBytes;
  context.uc_link = nullptr;
  makecontext(&context, function, 0);
}

// When what goes on behind the threads' back is done.
enum class When { at_once, some_time, when_waited_for };

struct Gate {  // of threads that wait for each other
  uint32_t generation = 0;
  int arrived = 0;
};
struct Meeting {
  Gate gate;
  std::vector<void*> brought;
};
struct SharedBarrier {
  uint32_t phase = 0;
  int64_t expected = 0, missing = 0, bytes = 0;
};

struct PendingProduct {
  Product product;
  void* sums;
  const void* rows;
  Descriptor a, b;
  unsigned add;
};
struct PendingCopy {
  void* to;
  const void* from;
  unsigned bytes, valid;
};

// What runs on a stack of its own, is left, and goes on there.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// Sanitizers know of these functions' stacks.
class Fiber {
 public:
  void begin(unsigned char* stack, void (*function)()) { begin_context(context_, stack, function); }
  void leave_for(Fiber& other) { swapcontext(&context_, &other.context_); }

 private:
  ucontext_t context_;
};
#else
// swapcontext asks the system for the mask of signals each time, which took half of the time of tests on the emulator.
class Fiber {
 public:
  void begin(unsigned char* stack, void (*function)()) {
    begin_context(context_, stack, function);
    begun_ = false;
  }
  void leave_for(Fiber& other) {
    if (_setjmp(left_) != 0) return;
    if (std::exchange(other.begun_, true)) _longjmp(other.left_, 1);
    setcontext(&other.context_);
  }

 private:
  ucontext_t context_;  // where it begins
  jmp_buf left_;        // where it goes on
  bool begun_ = true;
};
#endif

struct BlockState;
// Lanes, with their stacks, are there for all launches: each of a million short-lived ones would take longer to make
// than what it runs.
struct Lane {
  Fiber fiber;
  unsigned char* stack = nullptr;
  bool idle = false;  // its fiber waits for the next launch; otherwise it is begun anew
  Three thread;
  BlockState* block = nullptr;
  unsigned linear = 0;
  bool done = false;
  // It goes on when *word is no longer `value`.
  const uint32_t* word = nullptr;
  uint32_t value = 0;
  const char* waits_for = "";
  std::deque<std::vector<PendingCopy>> copies;
  std::vector<PendingCopy> open_copies;
  std::deque<std::vector<PendingProduct>> products;
  std::vector<PendingProduct> open_products;
  std::vector<std::function<void()>> stores;
};
struct BlockState {
  Three index;
  unsigned char* shared = nullptr;
  Gate gate;
  std::map<std::pair<int, unsigned>, Meeting> meetings;  // by lanes and number
  std::map<unsigned, Gate> named_gates;
  std::map<uint32_t, SharedBarrier> barriers;
};

void do_copy(const PendingCopy& c) {
  std::memcpy(c.to, c.from, c.valid);
  std::memset(static_cast<char*>(c.to) + c.valid, 0, c.bytes - c.valid);
}

class Run final : public Machine {
 public:
  Run(const LaunchOptions& options, const Three& cluster, Bound& bound)
      : options_(options), cluster_(cluster), bound_(bound), random_(options.seed) {
    block_dim = options.block;
    grid_dim = options.grid;
    threads_ = options.block.x * options.block.y * options.block.z;
    running_ = this;
    when_ = When(options.seed % 3);
    one_sleeps_ = options.seed / 3 % 2;
    wakes_early_ = options.seed / 6 % 2;
  }
  std::string all() {
    const Three& g = options_.grid;
    if (g.x % cluster_.x || g.y % cluster_.y || g.z % cluster_.z) return "the grid is no multiple of the cluster";
    if (options_.shared_bytes > 227 * 1024) return "more shared memory than a block can have";
    for (unsigned z = 0; z < g.z && problem_.empty(); z += cluster_.z)
      for (unsigned y = 0; y < g.y && problem_.empty(); y += cluster_.y)
        for (unsigned x = 0; x < g.x && problem_.empty(); x += cluster_.x) one_cluster({x, y, z});
    return problem_;
  }

  void barrier() override {
    Gate& gate = lane_->block->gate;
    const uint32_t generation = gate.generation;
    if (!arrive(gate, int(threads_))) wait(gate.generation, generation, "the threads of the block");
  }
  void together(int lanes, void* mine, void (*work)(void** all)) override {
    meet(lanes, mine, [work](void** all) { work(all); });
  }
  void meet_warps(unsigned number, unsigned threads) override {
    if (number > 14 || threads % 32) return complain("a barrier of a number or of threads that there is not");
    Gate& gate = lane_->block->named_gates[number];
    const uint32_t generation = gate.generation;
    if (!arrive(gate, int(threads))) wait(gate.generation, generation, "warps of the block");
  }
  void meet_cluster() override {
    const uint32_t generation = whole_cluster_.generation;
    if (!arrive(whole_cluster_, int(lanes_.size()))) wait(whole_cluster_.generation, generation, "the cluster");
  }
  unsigned char* shared_of(unsigned rank) override { return blocks_.at(rank).shared; }

  void copy(void* to, const void* from, unsigned bytes, unsigned valid) override {
    const PendingCopy c{to, from, bytes, valid};
    if (when_ == When::at_once) do_copy(c);
    else lane_->open_copies.push_back(c);
  }
  void close_copies() override { lane_->copies.push_back(std::move(lane_->open_copies)), lane_->open_copies.clear(); }
  void wait_for_copies(int groups) override {
    while (int(lane_->copies.size()) > groups) {
      for (const PendingCopy& c : lane_->copies.front()) do_copy(c);
      lane_->copies.pop_front();
    }
  }

  void barrier_init(uint32_t at, uint32_t count) override { lane_->block->barriers[at] = {0, count, count, 0}; }
  void barrier_arrive_at(uint32_t at, uint32_t expected_bytes, const unsigned* rank) override {
    SharedBarrier& b = barrier_at(rank ? blocks_.at(*rank) : *lane_->block, at);
    if (rank && all_done(blocks_.at(*rank))) return complain("an arrival at a block that has ended");
    b.bytes += expected_bytes;
    if (--b.missing < 0) return complain("more arrivals at a barrier than it was made for");
    flip(b);
  }
  void send_to_block(uint32_t to, uint32_t word, uint32_t barrier, unsigned rank) override {
    BlockState& receiver = blocks_.at(rank);
    auto send = [this, &receiver, to, word, barrier] {
      if (all_done(receiver)) return complain("words sent to a block that has ended");
      std::memcpy(receiver.shared + to, &word, sizeof word);
      SharedBarrier& b = barrier_at(receiver, barrier);
      b.bytes -= int64_t(sizeof word);
      flip(b);
    };
    if (when_ == When::at_once) send();
    else pending_.push_back(send);
  }
  void barrier_wait_at(uint32_t at, uint32_t parity) override {
    SharedBarrier& b = barrier_at(*lane_->block, at);
    wait(b.phase, parity, "a barrier in shared memory");
  }
  void load_tensor(uint32_t to, const void* map, const int* at, const uint16_t* offsets, uint32_t barrier,
                   unsigned blocks) override {
    TensorMap m;
    std::memcpy(&m, map, sizeof m);
    if (m.magic != kTensorMapMagic) return complain("a copy by what is no tensor map");
    if (to % 128) return complain("a bulk copy to no multiple of 128 bytes");
    std::vector<BlockState*> receivers;
    for (unsigned b = 0; b < blocks; ++b) receivers.push_back(&blocks_.at(b));
    if (blocks == 0) receivers.push_back(lane_->block);
    std::vector<int> where(at, at + m.rank);
    std::vector<uint16_t> by;
    if (offsets) by.assign(offsets, offsets + m.rank - 2);
    for (BlockState* receiver : receivers) {
      auto load = [this, m, where, by, receiver, to, barrier, others = blocks > 0] {
        if (others && all_done(*receiver)) return complain("a copy to a block that has ended");
        unsigned char* const there = receiver->shared + to;
        const int64_t bytes = m.im2col ? load_pixels(m, where, by, there, to) : load_box(m, where, there, to);
        SharedBarrier& b = barrier_at(*receiver, barrier);
        b.bytes -= bytes;
        flip(b);
      };
      if (when_ == When::at_once) load();
      else pending_.push_back(load);
    }
  }
  void store_tensor(uint32_t from, const void* map, const int* at) override {
    TensorMap m;
    std::memcpy(&m, map, sizeof m);
    if (m.magic != kTensorMapMagic || m.im2col) return complain("a copy by what is no tensor map of tiles");
    if (from % 128) return complain("a bulk copy from no multiple of 128 bytes");
    auto store = [m, where = std::vector<int>(at, at + m.rank), from, base = lane_->block->shared] {
      store_box(m, where, base, from);
    };
    if (when_ == When::at_once) store();
    else lane_->stores.push_back(store);
  }
  // No earlier: who writes to what is stored before this changes what comes to memory.
  void wait_for_stores() override {
    for (const auto& store : lane_->stores) store();
    lane_->stores.clear();
  }
  void product(Product what, void* sums, const void* rows, Descriptor a, Descriptor b, unsigned add) override {
    lane_->open_products.push_back({what, sums, rows, a, b, add});
  }
  void close_products() override {
    lane_->products.push_back(std::move(lane_->open_products));
    lane_->open_products.clear();
    if (when_ == When::at_once) do_products(0);
  }
  void wait_for_products(int groups) override { do_products(groups); }

 private:
  static unsigned char* map_memory(size_t bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<unsigned char*>(memory);
  }
  bool all_done(const BlockState& state) const {
    for (const Lane* lane : lanes_)
      if (lane->block == &state && !lane->done) return false;
    return true;
  }
  void complain(const char* what) {
    if (problem_.empty()) problem_ = what;
  }

  void one_cluster(const Three& first) {
    blocks_.clear();
    blocks_.resize(cluster_.x * cluster_.y * cluster_.z);
    static std::vector<unsigned char*> pieces;
    static std::deque<Lane> lanes;
    while (lanes.size() < blocks_.size() * threads_) lanes.emplace_back();
    lanes_.clear();
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (pieces.size() <= b) pieces.push_back(map_memory(kSharedBytes));
      BlockState& state = blocks_[b];
      state.index = {first.x + unsigned(b) % cluster_.x, first.y + unsigned(b) / cluster_.x % cluster_.y,
                     first.z + unsigned(b) / cluster_.x / cluster_.y};
      state.shared = pieces[b];
      std::memset(state.shared, 0xff, options_.shared_bytes);
      std::memset(state.shared + options_.shared_bytes, kGuard, kGuardBytes);
      for (unsigned t = 0; t < threads_; ++t) {
        Lane& lane = *lanes_.emplace_back(&lanes[b * threads_ + t]);
        lane.block = &state;
        lane.linear = t;
        lane.thread = {t % block_dim.x, t / block_dim.x % block_dim.y, t / block_dim.x / block_dim.y};
        begin(lane);
      }
    }
    pending_.clear();
    whole_cluster_ = {};
    std::vector<size_t> order(lanes_.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    size_t left = lanes_.size();
    // A warp that does nothing until nobody else can go on: others may be ahead of it as far as they can ever get. With
    // every other seed it wakes in the middle of what they do, and another one sleeps.
    const size_t warps = (lanes_.size() + 31) / 32;
    size_t sleeping = one_sleeps_ ? random_() % warps : warps;
    auto wakes_after = [&] { return wakes_early_ ? 1 + random_() % 8 : size_t(-1); };
    size_t wakes_at = wakes_after();
    for (unsigned pass = 0; left > 0 && problem_.empty(); ++pass) {
      if (pass % 4 == 0) std::shuffle(order.begin(), order.end(), random_);
      if (one_sleeps_ && pass >= wakes_at) sleeping = random_() % warps, wakes_at = pass + wakes_after();
      bool moved = false;
      for (size_t i : order) {
        Lane& lane = *lanes_[i];
        if (i / 32 == sleeping) continue;
        if (lane.done || (lane.word && *lane.word == lane.value)) continue;
        lane.word = nullptr;
        moved = true;
        resume(lane);
        left -= lane.done;
        if (!problem_.empty()) return;
        if (when_ == When::some_time && !pending_.empty() && random_() % 64 == 0) do_some_pending();
      }
      if (moved) continue;
      if (!pending_.empty()) do_some_pending();
      else if (sleeping < warps) sleeping = random_() % (warps + 1);
      else return complain_of_standstill();
    }
    while (!pending_.empty()) do_some_pending();
    for (const Lane* lane : lanes_) {
      if (!lane->products.empty() || !lane->open_products.empty()) complain("a thread ended with products under way");
      if (!lane->stores.empty()) complain("a thread ended while its shared memory was stored");
    }
    static const std::vector<unsigned char> guard(kGuardBytes, kGuard);
    for (const BlockState& state : blocks_)
      if (std::memcmp(state.shared + options_.shared_bytes, guard.data(), kGuardBytes) != 0)
        complain("a block wrote behind the shared memory that it was launched with");
  }
  void complain_of_standstill() {
    std::map<std::string, int> waiting;
    for (const Lane* lane : lanes_)
      if (!lane->done) ++waiting[lane->waits_for];
    problem_ = "standstill:";
    for (const auto& [what, count] : waiting)
      problem_ += " " + std::to_string(count) + " threads wait for " + what + ";";
  }
  void do_some_pending() {
    const size_t which = random_() % pending_.size();
    std::swap(pending_[which], pending_.back());
    const auto work = std::move(pending_.back());
    pending_.pop_back();
    work();
  }

  void begin(Lane& lane) {
    if (!lane.stack) lane.stack = map_memory(kStackBytes);
    if (!lane.idle) lane.fiber.begin(lane.stack, &Run::enter);  // what stood still was left in the middle of a kernel
    lane.copies.clear();
    lane.open_copies.clear();
    lane.products.clear();
    lane.open_products.clear();
    lane.stores.clear();
    lane.done = lane.idle = false;
    lane.word = nullptr;
  }
  static void enter() {
    for (;;) {
      running_->bound_.run();
      Lane& lane = *running_->lane_;
      lane.done = lane.idle = true;
      lane.fiber.leave_for(running_->scheduler_);
    }
  }
  void resume(Lane& lane) {
    lane_ = &lane;
    thread = lane.thread;
    block = lane.block->index;
    shared = lane.block->shared;
    scheduler_.leave_for(lane.fiber);
  }
  void wait(const uint32_t& word, uint32_t value, const char* what) {
    // Also where it need not wait it may have to: others run in between.
    lane_->word = &word;
    lane_->value = value;
    lane_->waits_for = what;
    lane_->fiber.leave_for(scheduler_);
  }
  // True for the last one.
  static bool arrive(Gate& gate, int threads) {
    if (++gate.arrived < threads) return false;
    gate.arrived = 0;
    ++gate.generation;
    return true;
  }
  template <class Work>
  void meet(int lanes, void* mine, Work&& work) {
    Meeting& meeting = lane_->block->meetings[{lanes, lane_->linear / unsigned(lanes)}];
    meeting.brought.resize(size_t(lanes));
    meeting.brought[lane_->linear % unsigned(lanes)] = mine;
    const uint32_t generation = meeting.gate.generation;
    if (meeting.gate.arrived + 1 == lanes) work(meeting.brought.data());
    if (!arrive(meeting.gate, lanes)) wait(meeting.gate.generation, generation, "its neighbours");
  }
  SharedBarrier& barrier_at(BlockState& state, uint32_t at) {
    auto it = state.barriers.find(at);
    if (it == state.barriers.end()) {
      complain("a barrier in shared memory that nobody made");
      it = state.barriers.emplace(at, SharedBarrier{}).first;
    }
    return it->second;
  }
  static void flip(SharedBarrier& b) {
    if (b.missing != 0 || b.bytes != 0) return;
    b.phase ^= 1;
    b.missing = b.expected;
  }
  void do_products(int groups) {
    unsigned char* at = shared;
    meet(128, &lane_->products, [groups, at, this](void** all) {
      auto queue = [&](int lane) -> std::deque<std::vector<PendingProduct>>& {
        return *static_cast<std::deque<std::vector<PendingProduct>>*>(all[lane]);
      };
      while (int(queue(0).size()) > groups) {
        for (size_t i = 0; i < queue(0).front().size(); ++i) {
          void* sums[128];
          const void* rows[128];
          const PendingProduct& first = queue(0).front()[i];
          for (int lane = 0; lane < 128; ++lane) {
            if (queue(lane).size() != queue(0).size() || queue(lane).front().size() != queue(0).front().size())
              return complain("threads of a group do not multiply together");
            const PendingProduct& mine = queue(lane).front()[i];
            if (mine.a != first.a || mine.b != first.b || mine.product != first.product)
              return complain("threads of a group multiply different matrices");
            sums[lane] = mine.sums;
            rows[lane] = mine.rows;
          }
          first.product(sums, rows, first.a, first.b, first.add, at);
        }
        for (int lane = 0; lane < 128; ++lane) queue(lane).pop_front();
      }
    });
  }

  // Where byte `at` of a box goes: 16-byte pieces are swizzled by the bits of the address itself.
  static uint32_t swizzled(const TensorMap& m, uint32_t address) {
    const uint32_t mask = m.swizzle == 128 ? 7 : m.swizzle == 64 ? 3 : m.swizzle == 32 ? 1 : 0;
    return address ^ (address >> 7 & mask) << 4;
  }
  struct Place {
    const unsigned char* at;
    bool inside;
  };
  static Place place(const TensorMap& m, const int64_t* position);
  // The box's elements: each one's position in the tensor, and how many bytes are in front of it. All of its bytes.
  template <class F>
  static int64_t walk_box(const TensorMap& m, const std::vector<int>& where, F&& f) {
    int64_t elements = 1;
    for (int i = 0; i < m.rank; ++i) elements *= m.box[i];
    for (int64_t e = 0; e < elements; ++e) {
      int64_t rest = e, position[5];
      for (int i = 0; i < m.rank; ++i) position[i] = where[size_t(i)] + rest % m.box[i], rest /= m.box[i];
      f(position, uint32_t(e * m.element_bytes));
    }
    return elements * m.element_bytes;
  }
  static int64_t load_box(const TensorMap& m, const std::vector<int>& where, unsigned char* base, uint32_t to) {
    return walk_box(m, where, [&](const int64_t* position, uint32_t offset) { put(m, position, base, to, offset); });
  }
  static void store_box(const TensorMap& m, const std::vector<int>& where, const unsigned char* base, uint32_t from) {
    walk_box(m, where, [&](const int64_t* position, uint32_t offset) {
      if (const Place to = place(m, position); to.inside)
        std::memcpy(const_cast<unsigned char*>(to.at), base + swizzled(m, from + offset), size_t(m.element_bytes));
    });
  }
  // Channels innermost, then pixels: base positions run through the box [low, size - 1 + high] of each image with the
  // given steps; what is loaded lies `offsets` further.
  int64_t load_pixels(const TensorMap& m, const std::vector<int>& where, const std::vector<uint16_t>& offsets,
                      unsigned char* base, uint32_t to) {
    const int axes = m.rank - 2;  // w, h, ... innermost first
    std::vector<int64_t> at(where.begin() + 1, where.end());
    for (uint32_t pixel = 0; pixel < m.box[1]; ++pixel) {
      for (uint32_t c = 0; c < m.box[0]; ++c) {
        int64_t position[5] = {where[0] + int64_t(c)};
        for (int i = 0; i < axes; ++i) position[i + 1] = at[size_t(i)] + offsets[size_t(i)];
        position[m.rank - 1] = at.back();
        put(m, position, base, to, (pixel * m.box[0] + c) * uint32_t(m.element_bytes));
      }
      int i = 0;
      for (; i < axes; ++i) {
        at[size_t(i)] += m.steps[i + 1];
        if (at[size_t(i)] <= int64_t(m.sizes[i + 1]) - 1 + m.high[i]) break;
        at[size_t(i)] = m.low[i];
      }
      if (i == axes) ++at.back();
    }
    return int64_t(m.box[0]) * m.box[1] * m.element_bytes;
  }
  static void put(const TensorMap& m, const int64_t* position, unsigned char* base, uint32_t to, uint32_t offset) {
    const Place from = place(m, position);
    unsigned char* there = base - to + swizzled(m, to + offset);
    if (from.inside) std::memcpy(there, from.at, size_t(m.element_bytes));
    else std::memset(there, 0, size_t(m.element_bytes));
    if (!m.tf32) return;
    uint32_t bits;
    std::memcpy(&bits, there, sizeof bits);
    if ((bits & 0x7f800000) != 0x7f800000) bits = (bits + 0x1000) & 0xffffe000;
    std::memcpy(there, &bits, sizeof bits);
  }
  const LaunchOptions options_;
  const Three cluster_;
  Bound& bound_;
  std::minstd_rand random_;
  bool one_sleeps_, wakes_early_;
  When when_;
  unsigned threads_ = 0;
  std::vector<BlockState> blocks_;
  std::vector<Lane*> lanes_;
  static inline Run* running_ = nullptr;
  std::vector<std::function<void()>> pending_;
  Gate whole_cluster_;
  Lane* lane_ = nullptr;
  Fiber scheduler_;
  std::string problem_;
};

Run::Place Run::place(const TensorMap& m, const int64_t* position) {
  int64_t offset = 0;
  for (int i = 0; i < m.rank; ++i) {
    if (position[i] < 0 || position[i] >= int64_t(m.sizes[i])) return {nullptr, false};
    offset += position[i] * m.strides[i];
  }
  return {m.base + offset, true};
}

}  // namespace

// Kernels are linked without libraries (nvrtc.cc). What they call is in those of this process, which in a module of
// Python are its alone.
static void show_libraries() {
  for (const char* name : {"libstdc++.so.6", "libm.so.6"}) dlopen(name, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

std::shared_ptr<KernelLibrary> KernelLibrary::load(const void* bytes) {
  static std::once_flag shown;
  std::call_once(shown, show_libraries);
  Elf64_Ehdr head;
  std::memcpy(&head, bytes, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_machine == 190) return nullptr;  // 190: NVIDIA's
  const size_t size = head.e_shoff + size_t(head.e_shnum) * head.e_shentsize;
  // A name of its own: the loader takes a name that it knows for the library that had it.
  std::string path = (std::filesystem::temp_directory_path() / "temper_kernel_XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return nullptr;
  const bool written = write(file, bytes, size) == ssize_t(size);
  close(file);
  auto library = std::make_shared<KernelLibrary>();
  if (written) library->handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  unlink(path.c_str());
  return library->handle_ ? library : nullptr;
}
KernelLibrary::~KernelLibrary() {
  if (handle_) dlclose(handle_);
}
bool KernelLibrary::has(const std::string& kernel) const { return dlsym(handle_, ("temper_bind_" + kernel).c_str()); }
std::unique_ptr<Bound> KernelLibrary::bind(const std::string& kernel, void** arguments) const {
  auto* make = reinterpret_cast<Bound* (*)(void**)>(dlsym(handle_, ("temper_bind_" + kernel).c_str()));
  return std::unique_ptr<Bound>(make ? make(arguments) : nullptr);
}
std::string KernelLibrary::run(const std::string& kernel, Bound& bound, const LaunchOptions& options) const {
  const auto* cluster = static_cast<const unsigned*>(dlsym(handle_, ("temper_cluster_" + kernel).c_str()));
  auto** machine = static_cast<Machine**>(dlsym(handle_, "temper_machine"));
  const Three three{std::max(cluster[0], 1u), std::max(cluster[1], 1u), std::max(cluster[2], 1u)};
  Run run(options, three, bound);
  *machine = &run;
  std::string problem = run.all();
  *machine = nullptr;
  return problem;
}

}  // namespace temper::emulator
