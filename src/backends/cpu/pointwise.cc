// SPDX-License-Identifier: Apache-2.0
// pointwise on CPUs: programs run step by step over tiles of about a thousand elements, so that what lies between two
// steps stays in the L1 cache. A tile is a range of the output's memory. Inputs that are contiguous there are read
// where they are; those that are one element for the whole tile are passed as such; the others are spread out into
// scratch first.
#include "graph/ops/pointwise.h"

#include <cstring>

#include "backends/axes.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/pointwise_steps.h"
#include "backends/cpu/pointwise_threads.h"
#include "backends/cpu/spelled_out.h"
#include "backends/half_values.h"
#include "base/checked.h"
#include "base/threads.h"

namespace temper {

namespace {

constexpr int64_t kTile = 1024;     // elements
constexpr int64_t kShortRow = 256;  // shorter rows share a tile

// Operands are indices into a table of pointers: inputs, slots, constants, the output.
struct Operand {
  int index = -1;
  bool uniform = false;
};
struct Instruction {
  StepFn run;
  int out;
  std::array<Operand, 3> args;
  bool single;  // all arguments are uniform: computes one element
};

struct Input {
  bool used = false;
  int64_t size = 0;   // bytes of an element
  Dims outer, inner;  // strides in elements
  bool contiguous = false, uniform = false;
  int64_t scratch = -1;  // offset in the thread's scratch, for inputs that are spread out
  // Per-channel inputs beside padding channels are copied to where their channels fill the blocks too.
  Tensor padded;
  int64_t padded_rows = 0, row_bytes = 0, padded_row_bytes = 0;
};

class PointwiseKernel final : public Kernel {
 public:
  PointwiseKernel(const Program& program, const std::vector<TensorType>& types, const TensorType& output, Layout layout,
                  int threads);
  void launch(const Buffers& buffers) override;

 private:
  // The input that a thread spread out last.
  struct Spread {
    const std::byte* from = nullptr;
    int64_t n = 0;
  };
  struct Thread {
    std::vector<const void*> table;
    std::vector<Spread> spread;
    std::vector<int64_t> offsets;
  };
  void prepare_axes(const std::vector<TensorType>& types, const Dims& dims, Layout layout);
  void compile(const Program& program, const std::vector<TensorType>& types, DType result);
  void run_tiles(Thread& thread, const Buffers& buffers, int64_t begin, int64_t end) const;
  void pad_inputs(const Buffers& buffers);
  void zero_padding(std::byte* out, int64_t begin, int64_t end) const;
  const void* spread(const Input& input, Spread& last, std::byte* scratch, const std::byte* from, int64_t row,
                     int64_t n) const;
  void fill_row(const Input& input, std::byte* to, const std::byte* from, size_t axis) const;

  std::vector<Input> inputs_;
  std::vector<Instruction> code_;
  Dims outer_, inner_;  // sizes; a tile lies within the inner axes
  int64_t blocks_ = 1, block_ = 1, row_ = 1, chunk_ = 1, chunks_ = 1;
  int64_t output_size_ = 4;
  int64_t image_ = 0,
          last_block_ = 0;      // elements of an image, and of its last block of channels, where that has padding
  std::vector<uint64_t> keep_;  // a block's bytes: 0 in the padding
  int out_ = 0, threads_ = 1;
  Tensor scratch_;  // for each thread: slots and spread-out inputs
  std::vector<Tensor> constants_;
  std::vector<Thread> thread_;
};

void PointwiseKernel::prepare_axes(const std::vector<TensorType>& types, const Dims& dims, Layout layout) {
  Axes axes{physical_dims(dims, layout), {}};
  const int64_t block = block_of(layout), tail = block > 1 ? dims[1] % block : 0;
  Dims padded = dims;
  if (tail) padded[1] = round_up(dims[1], block);
  for (const TensorType& type : types) {
    Input input;
    input.size = size_of(type.dtype);
    Dims from = type.dims();
    if (from == dims) {
      axes.strides.push_back(row_major_strides(axes.sizes));
    } else {
      const size_t behind = dims.size() - 1;  // from the back, the channels are this axis
      if (tail && from.size() >= behind && from[from.size() - behind] != 1) {
        const size_t channels = from.size() - behind;
        input.padded_rows = channels ? std::max<int64_t>(1, from[0]) : 1;
        input.row_bytes = element_count(from) / input.padded_rows * input.size;
        from[channels] = padded[1];
        input.padded = Tensor(type.dtype, from);
        input.padded_row_bytes = input.padded.bytes() / input.padded_rows;
      }
      axes.strides.push_back(physical_strides(broadcast_strides(from, padded), layout));
    }
    inputs_.push_back(std::move(input));
  }
  if (tail) {
    image_ = element_count(padded) / std::max<int64_t>(1, dims[0]);
    last_block_ = image_ / (padded[1] / block);
    keep_.assign(size_t(block * output_size_) / 8, 0);
    std::memset(keep_.data(), 0xff, size_t(tail * output_size_));
  }
  merge_axes(axes);
  size_t first = axes.sizes.size();
  while (first > 0 && block_ < kShortRow) block_ *= axes.sizes[--first];
  for (size_t i = first + 1; i < axes.sizes.size(); ++i) row_ *= axes.sizes[i];
  outer_.assign(axes.sizes.begin(), axes.sizes.begin() + int64_t(first));
  inner_.assign(axes.sizes.begin() + int64_t(first), axes.sizes.end());
  for (int64_t size : outer_) blocks_ *= size;
  if (element_count(dims) == 0) blocks_ = 0;
  // Equal chunks of whole rows, or of whole cache lines.
  const int64_t unit = row_ > 1 ? row_ : 16, most = kTile / unit * unit;
  chunks_ = std::max<int64_t>(1, (block_ + most - 1) / most);
  chunk_ = round_up(std::max<int64_t>(1, (block_ + chunks_ - 1) / chunks_), unit);
  const Dims packed = row_major_strides(inner_);
  for (size_t i = 0; i < types.size(); ++i) {
    Input& input = inputs_[i];
    input.outer.assign(axes.strides[i].begin(), axes.strides[i].begin() + int64_t(first));
    input.inner.assign(axes.strides[i].begin() + int64_t(first), axes.strides[i].end());
    input.uniform = std::all_of(input.inner.begin(), input.inner.end(), [](int64_t s) { return s == 0; });
    input.contiguous = !input.uniform && input.inner == packed;
  }
}

// The program without casts that change nothing in a tile: of a half to f32, which it is held as, and of f32 to a half
// that is the result, since storing rounds. Arguments name what was cast.
Program without_free_casts(const Program& program, const std::vector<TensorType>& types, int& result) {
  Program out = program;
  std::vector<DType> dtypes;
  dtypes.reserve(types.size());
  for (const TensorType& type : types) dtypes.push_back(type.dtype);
  std::vector<int> same(size_t(program.inputs) + program.steps.size());
  for (size_t v = 0; v < same.size(); ++v) same[v] = int(v);
  for (size_t s = 0; s < out.steps.size(); ++s) {
    Step& step = out.steps[s];
    const int value = program.inputs + int(s);
    for (int a = 0; a < arity_of(step.op); ++a) step.args[size_t(a)] = same[size_t(step.args[size_t(a)])];
    if (step.op != Scalar::cast) continue;
    const DType from = program.dtype_of_value(program.steps[s].args[0], dtypes);
    const bool widens = step.dtype == DType::f32 && held_as(from) == DType::f32;
    const bool stores = from == DType::f32 && held_as(step.dtype) == DType::f32 && value == program.result();
    if (widens || stores) same[size_t(value)] = step.args[0];
  }
  result = same[size_t(program.result())];
  return out;
}

void PointwiseKernel::compile(const Program& given, const std::vector<TensorType>& types, DType result) {
  int result_value = 0;
  const Program program = without_free_casts(given, types, result_value);
  const int inputs = program.inputs, values = inputs + int(program.steps.size());
  std::vector<int> last_use(size_t(values), -1);
  std::vector<bool> needed(size_t(values), false);
  needed[size_t(result_value)] = true;
  for (int s = int(program.steps.size()); s-- > 0;) {
    if (!needed[size_t(inputs) + size_t(s)]) continue;
    const Step& step = program.steps[size_t(s)];
    for (int a = 0; a < arity_of(step.op); ++a) {
      const size_t arg = size_t(step.args[size_t(a)]);
      needed[arg] = true;
      last_use[arg] = std::max(last_use[arg], s);
    }
  }
  last_use[size_t(result_value)] = values;

  // Slots are numbered from 0 here and moved behind the inputs in the table at the end; constants likewise.
  constexpr int kSlot = 1 << 20, kConstant = 1 << 21, kOut = 1 << 22;
  std::vector<bool> busy;
  auto take_slot = [&] {
    for (size_t i = 0; i < busy.size(); ++i)
      if (!busy[i]) return busy[i] = true, kSlot + int(i);
    busy.push_back(true);
    return kSlot + int(busy.size()) - 1;
  };
  auto release = [&](Operand operand) {
    if (operand.index >= kSlot && operand.index < kConstant) busy[size_t(operand.index - kSlot)] = false;
  };
  std::vector<Operand> where(static_cast<size_t>(values));
  auto dtype_of_value = [&](int v) {
    return v < inputs ? types[size_t(v)].dtype : program.steps[size_t(v - inputs)].dtype;
  };
  auto is_widened = [](DType dtype) { return held_as(dtype) != dtype; };

  for (int i = 0; i < inputs; ++i) {
    if (!needed[size_t(i)]) continue;
    Input& input = inputs_[size_t(i)];
    input.used = true;
    where[size_t(i)] = {i, input.uniform};
    if (is_widened(types[size_t(i)].dtype)) {
      const int slot = take_slot();
      code_.push_back({find_load(types[size_t(i)].dtype), slot, {Operand{i, input.uniform}}, input.uniform});
      where[size_t(i)] = {slot, input.uniform};
    }
  }
  for (int s = 0; s < int(program.steps.size()); ++s) {
    const Step& step = program.steps[size_t(s)];
    if (step.op != Scalar::constant || !needed[size_t(inputs + s)]) continue;
    Tensor constant(held_as(step.dtype), {1});
    visit_dtype(constant.dtype(), [&]<class T>() {
      if constexpr (std::is_integral_v<T>) *constant.data<T>() = static_cast<T>(step.integer);
      else *constant.data<T>() = static_cast<T>(step.number);
    });
    // A constant of a narrow dtype is held as f32 but has a value of its dtype.
    if (is_widened(step.dtype))
      visit_dtype(step.dtype, [&]<class T>() { *constant.data<float>() = float(static_cast<T>(step.number)); });
    where[size_t(inputs + s)] = {kConstant + int(constants_.size()), true};
    constants_.push_back(constant);
  }
  auto f32_constant = [&](float number) {
    constants_.push_back(Tensor::of<float>({1}, {number}));
    return Operand{kConstant + int(constants_.size()) - 1, true};
  };
  // Nothing reads what steps [s, end) make but the last one's result.
  auto is_closed = [&](int s, int end) {
    for (int i = s; i + 1 < end; ++i)
      if (program.steps[size_t(i)].op != Scalar::constant && last_use[size_t(inputs + i)] >= end) return false;
    return true;
  };
  // One instruction for several steps from s on, which take x and constants: the step behind them, 0 where there is
  // none.
  auto several = [&](int s, int x, Instruction& code) {
    if (x < 0 || dtype_of_value(x) != DType::f32) return 0;
    if (const auto found = spelled_out(program, size_t(s), x);
        found && found->kind == SpelledOut::Kind::gelu && is_closed(s, int(found->end))) {
      code.run = find_gelu();
      return int(found->end);
    }
    if (const auto found = spelled_out_quantization(program, size_t(s), x); found && is_closed(s, int(found->end))) {
      code.run = find_quantize(found->divides, found->to);
      code.args[1] = f32_constant(found->scale);
      code.args[2] = f32_constant(float(found->zero));
      return int(found->end);
    }
    return 0;
  };
  bool stored = false;  // the last instruction wrote the output itself
  for (int s = 0, end = 0; s < int(program.steps.size()); s = end) {
    end = s + 1;
    const Step& step = program.steps[size_t(s)];
    if (!needed[size_t(inputs + s)] || step.op == Scalar::constant) continue;
    Instruction code{nullptr, -1, {}, true};
    std::vector<int> args(step.args.begin(), step.args.begin() + arity_of(step.op));
    for (const int x : args)
      if (const int behind = several(s, x, code)) {
        end = behind;
        args = {x};
        break;
      }
    const int v = inputs + end - 1;
    for (size_t a = 0; a < args.size(); ++a) {
      code.args[a] = where[size_t(args[a])];
      code.single &= code.args[a].uniform;
    }
    const DType from = dtype_of_value(step.args[step.op == Scalar::where ? 1 : 0]),
                to = program.steps[size_t(end - 1)].dtype;
    if (step.op == Scalar::pow && step.args[1] >= inputs)
      if (const Step& exponent = program.steps[size_t(step.args[1] - inputs)]; exponent.op == Scalar::constant)
        code.run = find_pow(held_as(from), exponent.number);
    if (!code.run) code.run = find_step(step.op, held_as(from), held_as(step.dtype));
    if (!code.run) fail(ErrorKind::unsupported, "no loop for pointwise ", name_of(step.op), '.', step.dtype);
    // Arguments read for the last time give their slot to the result: every step may work in place.
    for (size_t a = 0; a < args.size(); ++a)
      if (last_use[size_t(args[a])] < end && size_of(held_as(dtype_of_value(args[a]))) == size_of(held_as(to)))
        release(code.args[a]);
    const bool last = v == result_value;
    stored = last && !code.single && !is_widened(result);
    code.out = stored ? kOut : take_slot();
    where[size_t(v)] = {code.out, code.single};
    code_.push_back(code);
    for (size_t a = 0; a < args.size(); ++a)
      if (last_use[size_t(args[a])] < end && code.args[a].index != code.out) release(code.args[a]);
    if (is_widened(to) && !(last && is_widened(result)) && !keeps_half_values(step.op))
      code_.push_back({find_rounding(to), code.out, {Operand{code.out, code.single}}, code.single});
  }
  if (!stored) {
    const StepFn store = is_widened(result) ? find_store(result) : find_cast(result, result);
    code_.push_back({store, kOut, {where[size_t(result_value)]}, false});
  }

  // The final numbering, and memory.
  const int slots = int(busy.size());
  out_ = inputs + slots + int(constants_.size());
  auto place = [&](int& index) {
    if (index >= kOut) index = out_;
    else if (index >= kConstant) index = inputs + slots + index - kConstant;
    else if (index >= kSlot) index = inputs + index - kSlot;
  };
  for (Instruction& code : code_) {
    place(code.out);
    for (Operand& operand : code.args) place(operand.index);
  }
  int64_t widest = 1, bytes = 0;
  for (int v = 0; v < values; ++v)
    if (needed[size_t(v)]) widest = std::max(widest, size_of(held_as(dtype_of_value(v))));
  // The odd cache line keeps slots from sharing cache sets.
  const int64_t slot_bytes = round_up(chunk_ * widest, int64_t(64)) + 64;
  bytes = slots * slot_bytes;
  for (Input& input : inputs_)
    if (input.used && !input.uniform && !input.contiguous) {
      input.scratch = bytes;
      bytes += round_up(chunk_ * input.size, int64_t(64));
    }
  bytes = round_up(bytes, int64_t(64));
  scratch_ = Tensor(DType::u8, {bytes * threads_});
  for (int t = 0; t < threads_; ++t) {
    Thread thread;
    thread.table.resize(size_t(out_) + 1);
    for (int s = 0; s < slots; ++s)
      thread.table[size_t(inputs) + size_t(s)] = scratch_.raw().data() + t * bytes + s * slot_bytes;
    for (size_t c = 0; c < constants_.size(); ++c)
      thread.table[size_t(inputs + slots) + c] = constants_[c].raw().data();
    thread.spread.resize(size_t(inputs));
    thread.offsets.resize(size_t(inputs));
    for (Input& input : inputs_)
      if (input.scratch >= 0)
        thread.table[size_t(&input - inputs_.data())] = scratch_.raw().data() + t * bytes + input.scratch;
    thread_.push_back(std::move(thread));
  }
}

PointwiseKernel::PointwiseKernel(const Program& program, const std::vector<TensorType>& types, const TensorType& output,
                                 Layout layout, int threads)
    : output_size_(size_of(output.dtype)), threads_(pointwise_threads(element_count(output.dims()), threads)) {
  const Dims dims = output.dims();
  prepare_axes(types, dims, layout);
  compile(program, types, output.dtype);
}

template <class T>
void copy_strided(std::byte* to, const std::byte* from, int64_t n, int64_t stride) {
  T* out = reinterpret_cast<T*>(to);
  const T* in = reinterpret_cast<const T*>(from);
  if (stride == 0) std::fill_n(out, n, *in);
  else
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * stride];
}

void copy_elements(std::byte* to, const std::byte* from, int64_t n, int64_t stride, int64_t size) {
  if (stride == 1) std::memcpy(to, from, size_t(n * size));
  else if (size == 4) copy_strided<uint32_t>(to, from, n, stride);
  else if (size == 1) copy_strided<uint8_t>(to, from, n, stride);
  else if (size == 2) copy_strided<uint16_t>(to, from, n, stride);
  else copy_strided<uint64_t>(to, from, n, stride);
}

// The elements of the inner axes from `axis` on, one after the other.
void PointwiseKernel::fill_row(const Input& input, std::byte* to, const std::byte* from, size_t axis) const {
  if (axis + 1 == inner_.size()) return copy_elements(to, from, inner_[axis], input.inner[axis], input.size);
  int64_t step = input.size;
  for (size_t i = axis + 1; i < inner_.size(); ++i) step *= inner_[i];
  for (int64_t i = 0; i < inner_[axis]; ++i)
    fill_row(input, to + i * step, from + i * input.inner[axis] * input.size, axis + 1);
}

const void* PointwiseKernel::spread(const Input& input, Spread& last, std::byte* scratch, const std::byte* from,
                                    int64_t start, int64_t n) const {
  const int64_t stride = input.inner[0];
  if (inner_.size() == 1) {  // neither contiguous nor uniform: strided
    copy_elements(scratch, from + start * stride * input.size, n, stride, input.size);
    return scratch;
  }
  const int64_t row_bytes = row_ * input.size;
  if (stride == 0) {  // every row is the same: often the one that is there already
    if (last.from == from && last.n >= n) return scratch;
    fill_row(input, scratch, from, 1);
    for (int64_t have = row_bytes, want = n * input.size; have < want; have *= 2)
      std::memcpy(scratch + have, scratch, size_t(std::min(have, want - have)));
    last = {from, n};
    return scratch;
  }
  const int64_t first = start / row_;
  for (int64_t r = 0; r < n / row_; ++r)
    fill_row(input, scratch + r * row_bytes, from + (first + r) * stride * input.size, 1);
  return scratch;
}

void PointwiseKernel::run_tiles(Thread& thread, const Buffers& buffers, int64_t begin, int64_t end) const {
  std::fill(thread.spread.begin(), thread.spread.end(), Spread{});
  std::byte* const out = static_cast<std::byte*>(buffers.outputs[0]);
  std::vector<const void*>& table = thread.table;
  int64_t block = begin / chunks_, chunk = begin % chunks_;
  bool moved = true;
  for (int64_t tile = begin; tile < end; ++tile) {
    if (moved) {
      std::fill(thread.offsets.begin(), thread.offsets.end(), 0);
      int64_t rest = block;
      for (size_t axis = outer_.size(); axis-- > 0; rest /= outer_[axis])
        for (size_t i = 0; i < inputs_.size(); ++i) thread.offsets[i] += rest % outer_[axis] * inputs_[i].outer[axis];
    }
    const int64_t start = chunk * chunk_, n = std::min(chunk_, block_ - start);
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = inputs_[i];
      if (!input.used) continue;
      const void* base = input.padded.defined() ? input.padded.raw().data() : buffers.inputs[i];
      const std::byte* from = static_cast<const std::byte*>(base) + thread.offsets[i] * input.size;
      if (input.uniform) table[i] = from;
      else if (input.contiguous) table[i] = from + start * input.size;
      else spread(input, thread.spread[i], static_cast<std::byte*>(const_cast<void*>(table[i])), from, start, n);
    }
    table[size_t(out_)] = out + (block * block_ + start) * output_size_;
    for (const Instruction& code : code_) {
      auto at = [&](int a) {
        return code.args[size_t(a)].index < 0 ? nullptr : table[size_t(code.args[size_t(a)].index)];
      };
      code.run({const_cast<void*>(table[size_t(code.out)]), at(0), at(1), at(2), code.single ? 1 : n,
                code.args[0].uniform, code.args[1].uniform, code.args[2].uniform});
    }
    if (image_) zero_padding(out, block * block_ + start, block * block_ + start + n);
    moved = ++chunk == chunks_;
    if (moved) chunk = 0, ++block;
  }
}

// Elements begin to end of the output have been written; whole blocks.
void PointwiseKernel::zero_padding(std::byte* out, int64_t begin, int64_t end) const {
  const int64_t words = int64_t(keep_.size()), bytes = words * 8;
  for (int64_t image = begin / image_; image * image_ < end; ++image) {
    const int64_t first = std::max(begin, (image + 1) * image_ - last_block_),
                  last = std::min(end, (image + 1) * image_);
    if (first >= last) continue;
    uint64_t* at = reinterpret_cast<uint64_t*>(out + first * output_size_);
    const int64_t rows = (last - first) * output_size_ / bytes;
    const uint64_t* keep = keep_.data();
    vectorised([=] {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t w = 0; w < words; ++w) at[r * words + w] &= keep[w];
    });
  }
}

void PointwiseKernel::pad_inputs(const Buffers& buffers) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    Input& input = inputs_[i];
    if (!input.used || !input.padded.defined()) continue;  // an unused one may have no memory
    for (int64_t row = 0; row < input.padded_rows; ++row)
      std::memcpy(input.padded.raw_mutable() + row * input.padded_row_bytes,
                  static_cast<const std::byte*>(buffers.inputs[i]) + row * input.row_bytes, size_t(input.row_bytes));
  }
}

void PointwiseKernel::launch(const Buffers& buffers) {
  pad_inputs(buffers);
  parallel_for_threads(
      threads_, blocks_ * chunks_, std::max<int64_t>(1, kPointwisePerThread / chunk_),
      [&](int thread, int64_t begin, int64_t end) { run_tiles(thread_[size_t(thread)], buffers, begin, end); });
}

}  // namespace

Support pointwise_supported(const Program& program, const std::vector<TensorType>& inputs, const TensorType& output,
                            Layout layout) {
  const Dims dims = output.dims();
  if (!layout_fits(dims, layout)) return refused("the layout ", layout, " needs [N,C,spatial...], not ", output);
  if (int(inputs.size()) != program.inputs)
    return refused("the program has ", program.inputs, " inputs, not ", inputs.size());
  return supported();
}

std::unique_ptr<Kernel> make_pointwise_kernel(const Program& program, const std::vector<TensorType>& inputs,
                                              const TensorType& output, Layout layout, int threads) {
  if (const Support support = pointwise_supported(program, inputs, output, layout); !support.yes())
    fail(ErrorKind::unsupported, "pointwise: ", support.reason);
  return std::make_unique<PointwiseKernel>(program, inputs, output, layout, threads);
}

// ---- the tactic ----
namespace {

std::vector<TensorType> types_of(const std::vector<Port>& ports) {
  std::vector<TensorType> types;
  types.reserve(ports.size());
  for (const Port& port : ports) types.push_back(port.type);
  return types;
}

Support supports(const Problem& problem, const Device&) { return needs_op<ops::Pointwise>(problem); }

std::vector<Config> configs(const Problem& problem, const Device& device) {
  const auto& op = problem.op.get<ops::Pointwise>();
  std::vector<Config> out;
  const Dims dims = problem.outputs[0].dims();
  for (Layout layout : useful_layouts(dims, device)) {
    if (!pointwise_supported(op.program, types_of(problem.inputs), problem.outputs[0].type, layout).yes()) continue;
    Config config{"", {}, {layout}};
    for (const Port& input : problem.inputs) config.inputs.push_back(input.dims() == dims ? layout : Layout::plain);
    out.push_back(std::move(config));
  }
  return out;
}

std::unique_ptr<Kernel> load(const Problem& problem, const Config& config, const PackedView&, const Device&) {
  const auto& op = problem.op.get<ops::Pointwise>();
  return make_pointwise_kernel(op.program, types_of(problem.inputs), problem.outputs[0].type, config.outputs.at(0),
                               problem.threads);
}

}  // namespace

extern const Tactic cpu_pointwise;
const Tactic cpu_pointwise{"cpu.pointwise", 2, supports, configs, nullptr, load};

}  // namespace temper
