// SPDX-License-Identifier: Apache-2.0
#include "backends/cuda/matmul/cublaslt_matmul.h"

#include "backends/axes.h"
#include "backends/cuda/support/host_transpose.h"
#include "graph/ops/conv.h"
#include "graph/ops/matmul.h"
#include "graph/ops/pointwise.h"
#include "graph/ops/window.h"

namespace temper::cuda {

extern const Recipe pointwise_recipe;

namespace {

constexpr int64_t kLargest = (int64_t(1) << 31) - 1;

bool data_of(DType dtype, CublasData& out) {
  switch (dtype) {
    case DType::f32: out = CublasData::f32; return true;
    case DType::f16: out = CublasData::f16; return true;
    case DType::bf16: out = CublasData::bf16; return true;
    default: return false;
  }
}

Dims batch_of(const Dims& dims) { return Dims(dims.begin(), dims.end() - 2); }

// The matrices of y = a b, of those dims, in plain layout. Gives a reason where there is no such product.
std::string describe_matrices(const ops::MatMul& op, const Dims& a, const Dims& b, const Dims& y, CublasLtProduct& p) {
  const Dims batch = batch_of(y);
  p.m = y.back();
  p.n = y[y.size() - 2];
  p.k = a[a.size() - (op.transpose_a ? 2 : 1)];
  auto strides = [&](const Dims& dims, int64_t matrix) {
    Dims out = broadcast_strides(batch_of(dims), batch);
    for (int64_t& stride : out) stride *= matrix;
    return out;
  };
  Axes axes{batch, {strides(b, p.k * p.m), strides(a, p.n * p.k), strides(y, p.n * p.m)}};
  if (!op.transpose_a && batch_of(a) == batch && element_count(batch_of(b)) == 1) {
    p.n *= element_count(batch);  // one matrix of all rows
    axes = {{}, {{}, {}, {}}};
  }
  for (int64_t size : y)
    if (size < 1) return concat("an axis of ", size, " elements");
  merge_axes(axes);
  if (axes.sizes.size() > 1) return "batch axes that no single stride walks";
  if (!axes.sizes.empty()) {
    p.batch = axes.sizes[0];
    p.a.batch_stride = axes.strides[0][0];
    p.b.batch_stride = axes.strides[1][0];
    p.c.batch_stride = p.d.batch_stride = axes.strides[2][0];
  }
  for (int64_t size : {p.m, p.n, p.k, p.batch})
    if (size < 1 || size > kLargest) return concat("a size of ", size);
  p.a.transposed = op.transpose_b;
  p.a.ld = op.transpose_b ? p.k : p.m;
  p.b.transposed = op.transpose_a;
  p.b.ld = op.transpose_a ? p.n : p.k;
  p.c.ld = p.d.ld = p.m;
  return "";
}

class Translator {
 public:
  Translator(const Problem& problem, bool narrow_bias) : problem_(problem), narrow_bias_(narrow_bias) {}
  CublasLtMatmul run() {
    out_.reason = translate();
    return std::move(out_);
  }

 private:
  // A value of the epilogue's program: the product with what was done to it so far, an input, or a number.
  struct Held {
    enum class Kind { product, input, number } kind;
    int state = 0;  // of the product: how many steps were taken
    int input = -1;
    double number = 0;
  };

  std::string translate() {
    const auto* op = problem_.op.get_if<ops::MatMul>();
    if (!op) return "not a matrix product";
    const Port &a = problem_.inputs[0], &b = problem_.inputs[1], &y = problem_.outputs[0];
    CublasLtProduct& p = out_.product;
    if (!data_of(a.type.dtype, p.type) || b.type.dtype != a.type.dtype)
      return concat("a product of ", a.type.dtype, " and ", b.type.dtype);
    if (!data_of(y.type.dtype, p.result) || (p.result != CublasData::f32 && p.result != p.type))
      return concat("a result of ", y.type.dtype, " of operands of ", a.type.dtype);
    p.tf32 = op->tf32 && p.type == CublasData::f32;
    if (std::string reason = describe_matrices(*op, a.dims(), b.dims(), y.dims(), p); !reason.empty()) return reason;
    if (std::string reason = translate_program(op->epilogue); !reason.empty()) return reason;
    // Its kernels for other rows turn NaN into 0 in relu.
    const int64_t size = size_of(a.type.dtype);
    if (p.relu && (p.m * size % 16 != 0 || p.k * size % 16 != 0))
      return "relu, which would lose NaN in rows that are not whole 16 bytes";
    return "";
  }

  std::string translate_program(const Program& program) {
    held_.push_back({Held::Kind::product, 0});
    const size_t first = problem_.inputs.size() - size_t(program.inputs - 1);
    for (int i = 1; i < program.inputs; ++i) held_.push_back({Held::Kind::input, 0, int(first) + i - 1});
    for (const Step& step : program.steps) {
      if (step.op == Scalar::constant) {
        held_.push_back({Held::Kind::number, 0, -1, step.number});
        continue;
      }
      if (step.dtype != DType::f32 && step.dtype != problem_.outputs[0].type.dtype)
        return concat("an epilogue that rounds to ", step.dtype, " in between");
      const Held x = held_[size_t(step.args[0])];
      if (step.op == Scalar::cast) {
        held_.push_back(x);
        continue;
      }
      const Held y = arity_of(step.op) > 1 ? held_[size_t(step.args[1])] : Held{Held::Kind::number};
      if (arity_of(step.op) > 2 || !take(step.op, x, y)) return reason_.empty() ? refusal(step.op) : reason_;
      held_.push_back({Held::Kind::product, ++state_});
    }
    const Held& result = held_[size_t(program.result())];
    if (!is_product(result)) return "an epilogue that uses a value twice";
    return "";
  }
  static std::string refusal(Scalar op) { return concat("an epilogue with ", name_of(op), " where cuBLASLt has none"); }
  bool is_product(const Held& held) const { return held.kind == Held::Kind::product && held.state == state_; }

  // Whether the step is one that the product can take on; if so, it has.
  bool take(Scalar op, Held x, Held y) {
    CublasLtProduct& p = out_.product;
    const bool swaps = op == Scalar::add || op == Scalar::mul || op == Scalar::max;
    if (swaps && !is_product(x)) std::swap(x, y);
    if (!is_product(x) || p.relu) return false;
    if (op == Scalar::mul && y.kind == Held::Kind::number && !p.adds_bias && !p.adds_c) {
      p.alpha = float(double(p.alpha) * y.number);
      return true;
    }
    if (op == Scalar::relu || (op == Scalar::max && y.kind == Held::Kind::number && y.number == 0))
      return p.relu = true;
    return op == Scalar::add && y.kind == Held::Kind::input && add(y.input);
  }

  bool add(int input) {
    CublasLtProduct& p = out_.product;
    const Port& port = problem_.inputs[size_t(input)];
    const Dims out = problem_.outputs[0].dims();
    Dims dims = port.dims();
    dims.insert(dims.begin(), out.size() - dims.size(), 1);
    Dims row(out.size(), 1);
    row.back() = p.m;
    CublasData type;
    if (!data_of(port.type.dtype, type)) {
      reason_ = concat("an epilogue that reads ", port.type.dtype);
      return false;
    }
    // An input that could be a bias or a residual is taken as a residual unless it is constant.
    if (dims == row && !p.adds_bias && (dims != out || port.is_constant || p.adds_c)) {
      p.adds_bias = true;
      p.bias = narrow_bias_ && port.is_constant ? p.result : type;
      out_.bias = input;
      return true;
    }
    if (dims != out || p.adds_c) {
      reason_ = "an epilogue that adds what is neither a bias nor of the output's shape";
      return false;
    }
    if (type != p.result) {
      reason_ = concat("an epilogue that adds ", port.type.dtype, " to a result of ", problem_.outputs[0].type.dtype);
      return false;
    }
    p.adds_c = true;
    out_.residual = input;
    return true;
  }

  const Problem& problem_;
  const bool narrow_bias_;
  CublasLtMatmul out_;
  std::vector<Held> held_;  // by value of the program
  int state_ = 0;
  std::string reason_;
};

}  // namespace

CublasLtMatmul cublaslt_matmul(const Problem& problem, bool narrow_bias) {
  return Translator(problem, narrow_bias).run();
}

namespace {

// The epilogue as a problem of its own, whose first input are the sums.
Problem behind_sums(const Problem& problem) {
  Problem out{
      ops::Pointwise{*epilogue_of(problem.op)}, {{type_of(DType::i32, problem.outputs[0].dims())}}, problem.outputs};
  out.inputs.insert(out.inputs.end(), problem.inputs.begin() + 2, problem.inputs.end());
  return out;
}

// Pixels are rows where a convolution has neither neighbours nor borders.
std::string translate_conv(const ops::Conv& op, const Problem& problem, ops::MatMul& matmul, Dims& a, Dims& b,
                           Dims& y) {
  const Dims in = problem.inputs[0].dims(), weights = problem.inputs[1].dims(), out = problem.outputs[0].dims();
  if (op.group != 1) return concat(op.group, " groups");
  const ops::Window window = op.window(weights);
  for (size_t i = 0; i + 2 < in.size(); ++i) {
    if (weights[i + 2] != 1) return "a kernel of more than one tap";
    if (op.strides[i] != 1 || ops::window_pads(window, int64_t(i), in[i + 2]).first != 0 || in[i + 2] != out[i + 2])
      return "strides or padding";
  }
  const int64_t pixels = out[1] ? element_count(out) / out[1] : 0;
  matmul.transpose_b = true;
  a = {pixels, in[1]};
  b = {out[1], in[1]};
  y = {pixels, out[1]};
  return "";
}

std::string translate(const Problem& problem, CublasLtIntegers& out) {
  const auto* conv = problem.op.get_if<ops::Conv>();
  const Port &a = problem.inputs[0], &b = problem.inputs[1];
  if (a.type.dtype != DType::i8 || b.type.dtype != DType::i8)
    return concat("a product of ", a.type.dtype, " and ", b.type.dtype, ", not of i8 and i8");
  ops::MatMul op;
  Dims a_dims = a.dims(), b_dims = b.dims(), y_dims = problem.outputs[0].dims();
  if (conv) {
    if (std::string reason = translate_conv(*conv, problem, op, a_dims, b_dims, y_dims); !reason.empty()) return reason;
    out.layout = Layout::channels_last;
  } else {
    op = problem.op.get<ops::MatMul>();
  }
  // Both operands have what is summed in their rows.
  if (op.transpose_a) return "a first operand that is transposed";
  out.packs = !op.transpose_b;
  if (out.packs && !b.is_constant) return "a second operand that is neither transposed nor constant";
  op.transpose_b = true;
  CublasLtProduct& p = out.product;
  p.type = CublasData::i8;
  p.result = CublasData::i32;
  if (std::string reason = describe_matrices(op, a_dims, b_dims, y_dims, p); !reason.empty()) return reason;
  if (p.m % 4 || p.k % 4) return concat(p.m, " columns of sums of ", p.k, ": cuBLASLt multiplies i8 in multiples of 4");
  if (p.k >= int64_t(1) << 17) return concat("sums of ", p.k, " products, which i32 may not hold");
  return pointwise_recipe.supports(behind_sums(problem)).reason;
}

}  // namespace

CublasLtIntegers cublaslt_integers(const Problem& problem) {
  CublasLtIntegers out;
  out.reason = translate(problem, out);
  return out;
}

Config cublaslt_layouts(const Problem& problem, Layout layout, std::string text) {
  const Dims dims = problem.outputs[0].dims();
  Config config{std::move(text), {layout, Layout::plain}, {layout}};
  for (size_t i = 2; i < problem.inputs.size(); ++i)
    config.inputs.push_back(problem.inputs[i].dims() == dims ? layout : Layout::plain);
  return config;
}

Recipe::Work work_behind_sums(const Problem& problem, const CublasLtIntegers& integers, const GpuProperties& gpu) {
  Recipe::Work out;
  if (!epilogue_of(problem.op)->steps.empty()) {
    // Its inputs: the sums, and ours from the third on.
    Config config = cublaslt_layouts(problem, integers.layout, "");
    config.inputs.erase(config.inputs.begin() + 1);
    out = pointwise_recipe.work(behind_sums(problem), config, gpu);
    for (Job& job : out.jobs)
      for (Slot& slot : job.slots)
        if (slot.kind == Slot::Kind::input)
          slot = slot.index == 0 ? Slot{Slot::Kind::workspace, 0, 0} : Slot{Slot::Kind::input, slot.index + 1, 0};
    out.workspace = element_count(problem.outputs[0].dims()) * size_of(DType::i32);
  }
  if (integers.packs) {
    const Port& b = problem.inputs[1];
    const int64_t columns = integers.product.m, depth = integers.product.k, count = element_count(b.dims());
    out.consumed.assign(problem.inputs.size(), false);
    out.consumed[1] = true;
    out.packed_bytes = count;
    if (b.constant) {
      out.packed.resize(size_t(count));
      for (int64_t at = 0; at < count; at += depth * columns)
        transpose_on_host(b.constant->raw().data() + at, depth, columns, 1, out.packed.data() + at, depth);
    }
  }
  return out;
}

}  // namespace temper::cuda
