// SPDX-License-Identifier: Apache-2.0
// Writes a pointwise program as ONNX nodes, one a step.
#include <onnx/onnx_pb.h>

#include "onnx/tensor_proto.h"
#include "onnx/writer.h"

namespace temper {

namespace {

// The ONNX op of a step of one ONNX node; null where there is none.
const char* onnx_name(Scalar op) {
  switch (op) {
    case Scalar::cast: return "Cast";
    case Scalar::add: return "Add";
    case Scalar::sub: return "Sub";
    case Scalar::mul: return "Mul";
    case Scalar::div: return "Div";
    case Scalar::pow: return "Pow";
    case Scalar::min: return "Min";
    case Scalar::max: return "Max";
    case Scalar::mod:
    case Scalar::fmod: return "Mod";
    case Scalar::bit_and: return "BitwiseAnd";
    case Scalar::bit_or: return "BitwiseOr";
    case Scalar::bit_xor: return "BitwiseXor";
    case Scalar::shift_left:
    case Scalar::shift_right: return "BitShift";
    case Scalar::neg: return "Neg";
    case Scalar::abs: return "Abs";
    case Scalar::sign: return "Sign";
    case Scalar::floor: return "Floor";
    case Scalar::ceil: return "Ceil";
    case Scalar::round: return "Round";
    case Scalar::sqrt: return "Sqrt";
    case Scalar::reciprocal: return "Reciprocal";
    case Scalar::exp: return "Exp";
    case Scalar::log: return "Log";
    case Scalar::erf: return "Erf";
    case Scalar::sigmoid: return "Sigmoid";
    case Scalar::tanh: return "Tanh";
    case Scalar::relu: return "Relu";
    case Scalar::sin: return "Sin";
    case Scalar::cos: return "Cos";
    case Scalar::tan: return "Tan";
    case Scalar::asin: return "Asin";
    case Scalar::acos: return "Acos";
    case Scalar::atan: return "Atan";
    case Scalar::sinh: return "Sinh";
    case Scalar::cosh: return "Cosh";
    case Scalar::asinh: return "Asinh";
    case Scalar::acosh: return "Acosh";
    case Scalar::atanh: return "Atanh";
    case Scalar::bit_not: return "BitwiseNot";
    case Scalar::equal: return "Equal";
    case Scalar::less: return "Less";
    case Scalar::less_equal: return "LessOrEqual";
    case Scalar::logical_and: return "And";
    case Scalar::logical_or: return "Or";
    case Scalar::logical_xor: return "Xor";
    case Scalar::logical_not: return "Not";
    case Scalar::is_nan: return "IsNaN";
    case Scalar::is_inf: return "IsInf";
    case Scalar::where: return "Where";
    default: return nullptr;
  }
}

}  // namespace

// A cast from a float to an integer that does not hold it is left open by ONNX; Temper saturates, and so does it when
// it reads the model again.
void OnnxWriter::program(const Program& program, std::vector<std::string> values, std::vector<TensorType> types,
                         const Shape& shape, const std::string& output) {
  const int done = int(values.size()) - program.inputs;  // steps whose results are given
  auto finish = [&](int value) {
    if (types[size_t(value)].shape == shape) node("Identity", {values[size_t(value)]}, {output});
    else node("Expand", {values[size_t(value)], dims(shape)}, {output});
  };
  for (size_t i = size_t(done); i < program.steps.size(); ++i) {
    const Step& step = program.steps[i];
    const bool last = i + 1 == program.steps.size();
    TensorType type{step.dtype, {}};
    if (step.op == Scalar::constant) {
      values.push_back(scalar(step.dtype, step.number, step.integer));
      types.push_back(type);
      continue;
    }
    std::vector<std::string> inputs;
    for (int a = 0; a < arity_of(step.op); ++a) {
      const size_t arg = size_t(step.args[size_t(a)]);
      inputs.push_back(values[arg]);
      type.shape = broadcast_shapes(type.shape, types[arg].shape);
    }
    const DType from = types[size_t(step.args[0])].dtype;
    const char* op_type = onnx_name(step.op);
    if (!op_type) unsupported("the step ", name_of(step.op));
    if (step.op == Scalar::mod && is_float(from)) unsupported("mod (with the sign of the divisor) of ", from);
    if (step.op == Scalar::relu && is_int(from) && !is_signed_int(from)) op_type = "Identity";
    const bool to_output = last && type.shape == shape;
    const std::string result = to_output ? output : fresh(concat(output, '/', name_of(step.op)));
    onnx::NodeProto& proto = node(op_type, inputs, {result});
    if (step.op == Scalar::cast) set_attribute(proto, "to", int64_t(onnx_from_dtype(step.dtype)));
    if (step.op == Scalar::fmod) set_attribute(proto, "fmod", int64_t(1));
    if (step.op == Scalar::shift_left || step.op == Scalar::shift_right)
      set_attribute(proto, "direction", std::string_view(step.op == Scalar::shift_left ? "LEFT" : "RIGHT"));
    values.push_back(result);
    types.push_back(type);
    if (to_output) return;
  }
  finish(program.result());
}

}  // namespace temper
