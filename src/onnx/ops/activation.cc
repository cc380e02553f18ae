// SPDX-License-Identifier: Apache-2.0
// Imports activations of more than one step. Formulas are those of the ONNX operator documents.
#include <cmath>

#include "onnx/broadcast.h"

namespace temper {

namespace {

// The program of one input under construction; values are indices, `number` is a constant of the input's dtype.
class Formula {
 public:
  explicit Formula(OnnxNode& node) : node_(node), dtype_(node.type(0).dtype), b_({dtype_}) {
    if (!is_float(dtype_)) node.unsupported(node.op_type(), " of ", node.type(0));
    node.ignore_attribute("consumed_inputs");  // a memory hint of opset 1
  }
  int x() const { return 0; }
  int number(double value) { return b_.constant(dtype_, value); }
  int add(int a, int b) { return b_.op(Scalar::add, a, b); }
  int sub(int a, int b) { return b_.op(Scalar::sub, a, b); }
  int mul(int a, int b) { return b_.op(Scalar::mul, a, b); }
  int div(int a, int b) { return b_.op(Scalar::div, a, b); }
  int min(int a, int b) { return b_.op(Scalar::min, a, b); }
  int max(int a, int b) { return b_.op(Scalar::max, a, b); }
  int less(int a, int b) { return b_.op(Scalar::less, a, b); }
  int where(int condition, int a, int b) { return b_.op(Scalar::where, condition, a, b); }
  int of(Scalar op, int a) { return b_.op(op, a); }
  // log(1 + e^x) without overflow
  int softplus(int x) {
    const int small = of(Scalar::exp, of(Scalar::neg, of(Scalar::abs, x)));
    return add(of(Scalar::relu, x), of(Scalar::log, add(number(1), small)));
  }
  void done(int result) { node_.set_output(0, node_.program(b_.result(result), {node_.input(0)})); }

 private:
  OnnxNode& node_;
  DType dtype_;
  ProgramBuilder b_;
};

}  // namespace

void import_Celu(OnnxNode& node) {
  Formula f(node);
  const int alpha = f.number(node.float_attribute("alpha", 1)), zero = f.number(0);
  const int below = f.mul(alpha, f.sub(f.of(Scalar::exp, f.div(f.x(), alpha)), f.number(1)));
  f.done(f.add(f.max(zero, f.x()), f.min(zero, below)));
}

void import_Elu(OnnxNode& node) {
  Formula f(node);
  const int below = f.mul(f.number(node.float_attribute("alpha", 1)), f.sub(f.of(Scalar::exp, f.x()), f.number(1)));
  f.done(f.where(f.less(f.x(), f.number(0)), below, f.x()));
}

void import_Gelu(OnnxNode& node) {
  Formula f(node);
  const std::string approximate = node.string_attribute("approximate", "none");
  int inner = 0;
  if (approximate == "tanh") {
    const int cube = f.mul(f.mul(f.x(), f.x()), f.x());
    inner = f.of(Scalar::tanh, f.mul(f.number(std::sqrt(2 / M_PI)), f.add(f.x(), f.mul(f.number(0.044715), cube))));
  } else if (approximate == "none") {
    inner = f.of(Scalar::erf, f.mul(f.x(), f.number(std::sqrt(0.5))));
  } else {
    node.bad("approximate = '", approximate, "'");
  }
  f.done(f.mul(f.mul(f.number(0.5), f.x()), f.add(f.number(1), inner)));
}

void import_HardSigmoid(OnnxNode& node) {
  Formula f(node);
  const int line =
      f.add(f.mul(f.number(node.float_attribute("alpha", 0.2f)), f.x()), f.number(node.float_attribute("beta", 0.5)));
  f.done(f.max(f.number(0), f.min(f.number(1), line)));
}

void import_HardSwish(OnnxNode& node) {
  Formula f(node);
  const int line = f.add(f.div(f.x(), f.number(6)), f.number(0.5));
  f.done(f.mul(f.x(), f.max(f.number(0), f.min(f.number(1), line))));
}

void import_LeakyRelu(OnnxNode& node) {
  Formula f(node);
  f.done(f.where(f.less(f.x(), f.number(0)), f.mul(f.number(node.float_attribute("alpha", 0.01f)), f.x()), f.x()));
}

void import_Mish(OnnxNode& node) {
  Formula f(node);
  f.done(f.mul(f.x(), f.of(Scalar::tanh, f.softplus(f.x()))));
}

// Before opset 7 a slope [C] belongs to axis 1 of x; since then it broadcasts as numpy does.
void import_PRelu(OnnxNode& node) {
  node.ignore_attribute("consumed_inputs");
  const TensorType x = node.type(0);
  ValueId slope = node.input(1);
  if (node.opset() < 7 && node.type(1).rank() == 1 && x.rank() > 1)
    slope = node.type(1).shape[0] == Dim(1) ? node.reshape(slope, {}) : along_axis(node, slope, 1, x.rank());
  ProgramBuilder b({x.dtype, x.dtype});
  const int negative = b.op(Scalar::less, 0, b.constant(x.dtype, 0));
  node.set_output(
      0, node.program(b.result(b.op(Scalar::where, negative, b.op(Scalar::mul, 0, 1), 0)), {node.input(0), slope}));
}

void import_Selu(OnnxNode& node) {
  Formula f(node);
  const bool old = node.opset() < 6;
  const int alpha = f.number(node.float_attribute("alpha", old ? 1.6732f : 1.67326319217681884765625));
  const int gamma = f.number(node.float_attribute("gamma", old ? 1.0507f : 1.05070102214813232421875));
  const int below = f.sub(f.mul(alpha, f.of(Scalar::exp, f.x())), alpha);
  f.done(f.mul(gamma, f.where(f.less(f.number(0), f.x()), f.x(), below)));
}

void import_Shrink(OnnxNode& node) {
  const double lambda = node.float_attribute("lambd", 0.5);
  if (const DType dtype = node.type(0).dtype; is_int(dtype)) {
    // Compared and moved as floats, and rounded towards zero. Where nothing is moved the integer stays as it is.
    const double bias = node.float_attribute("bias", 0);
    ProgramBuilder b({dtype});
    const int x = b.cast(0, DType::f64), zero = b.constant(dtype, 0);
    const auto moved = [&](Scalar op) {
      return bias == 0 ? 0 : b.cast(b.op(op, x, b.constant(DType::f64, bias)), dtype);
    };
    const int above =
        b.op(Scalar::where, b.op(Scalar::less, b.constant(DType::f64, lambda), x), moved(Scalar::sub), zero);
    const int below = b.op(Scalar::less, x, b.constant(DType::f64, -lambda));
    return node.set_output(
        0, node.program(b.result(b.op(Scalar::where, below, moved(Scalar::add), above)), {node.input(0)}));
  }
  Formula f(node);
  const int bias = f.number(node.float_attribute("bias", 0));
  const int above = f.where(f.less(f.number(lambda), f.x()), f.sub(f.x(), bias), f.number(0));
  f.done(f.where(f.less(f.x(), f.number(-lambda)), f.add(f.x(), bias), above));
}

void import_Softplus(OnnxNode& node) {
  Formula f(node);
  f.done(f.softplus(f.x()));
}

void import_Softsign(OnnxNode& node) {
  Formula f(node);
  f.done(f.div(f.x(), f.add(f.number(1), f.of(Scalar::abs, f.x()))));
}

void import_Swish(OnnxNode& node) {
  Formula f(node);
  const double alpha = node.float_attribute("alpha", 1);
  f.done(f.mul(f.x(), f.of(Scalar::sigmoid, alpha == 1 ? f.x() : f.mul(f.number(alpha), f.x()))));
}

void import_ThresholdedRelu(OnnxNode& node) {
  Formula f(node);
  f.done(f.where(f.less(f.number(node.float_attribute("alpha", 1)), f.x()), f.x(), f.number(0)));
}

}  // namespace temper
