// SPDX-License-Identifier: Apache-2.0
// THE list of imports, from the name of an ONNX op to its function. The functions are in ops/, one file per family
// named after its main op.
#include <string>
#include <unordered_map>

#include "onnx/node.h"

namespace temper {

// One a line, in alphabetical order.
#define TEMPER_IMPORT_LIST(X) \
  X(Abs)                      \
  X(Acos)                     \
  X(Acosh)                    \
  X(Add)                      \
  X(And)                      \
  X(ArgMax)                   \
  X(ArgMin)                   \
  X(Asin)                     \
  X(Asinh)                    \
  X(Atan)                     \
  X(Atanh)                    \
  X(Attention)                \
  X(AveragePool)              \
  X(BatchNormalization)       \
  X(BitCast)                  \
  X(BitShift)                 \
  X(BitwiseAnd)               \
  X(BitwiseNot)               \
  X(BitwiseOr)                \
  X(BitwiseXor)               \
  X(Cast)                     \
  X(CastLike)                 \
  X(Ceil)                     \
  X(Celu)                     \
  X(Clip)                     \
  X(Col2Im)                   \
  X(Compress)                 \
  X(Concat)                   \
  X(Constant)                 \
  X(ConstantOfShape)          \
  X(Conv)                     \
  X(ConvInteger)              \
  X(ConvTranspose)            \
  X(Cos)                      \
  X(Cosh)                     \
  X(CumProd)                  \
  X(CumSum)                   \
  X(DFT)                      \
  X(DepthToSpace)             \
  X(DequantizeLinear)         \
  X(Div)                      \
  X(Dropout)                  \
  X(Einsum)                   \
  X(Elu)                      \
  X(Equal)                    \
  X(Erf)                      \
  X(Exp)                      \
  X(Expand)                   \
  X(EyeLike)                  \
  X(Flatten)                  \
  X(Floor)                    \
  X(GRU)                      \
  X(Gather)                   \
  X(GatherElements)           \
  X(GatherND)                 \
  X(Gelu)                     \
  X(Gemm)                     \
  X(GlobalAveragePool)        \
  X(GlobalLpPool)             \
  X(GlobalMaxPool)            \
  X(Greater)                  \
  X(GreaterOrEqual)           \
  X(GridSample)               \
  X(GroupNormalization)       \
  X(HardSigmoid)              \
  X(HardSwish)                \
  X(Hardmax)                  \
  X(Identity)                 \
  X(If)                       \
  X(InstanceNormalization)    \
  X(IsInf)                    \
  X(IsNaN)                    \
  X(LRN)                      \
  X(LSTM)                     \
  X(LayerNormalization)       \
  X(LeakyRelu)                \
  X(Less)                     \
  X(LessOrEqual)              \
  X(Log)                      \
  X(LogSoftmax)               \
  X(LpNormalization)          \
  X(LpPool)                   \
  X(MatMul)                   \
  X(MatMulInteger)            \
  X(Max)                      \
  X(MaxPool)                  \
  X(MaxUnpool)                \
  X(Mean)                     \
  X(Min)                      \
  X(Mish)                     \
  X(Mod)                      \
  X(Mul)                      \
  X(Neg)                      \
  X(NonMaxSuppression)        \
  X(NonZero)                  \
  X(Not)                      \
  X(OneHot)                   \
  X(Or)                       \
  X(PRelu)                    \
  X(Pad)                      \
  X(Pow)                      \
  X(QLinearConv)              \
  X(QLinearMatMul)            \
  X(QuantizeLinear)           \
  X(RMSNormalization)         \
  X(RNN)                      \
  X(Range)                    \
  X(Reciprocal)               \
  X(ReduceL1)                 \
  X(ReduceL2)                 \
  X(ReduceLogSum)             \
  X(ReduceLogSumExp)          \
  X(ReduceMax)                \
  X(ReduceMean)               \
  X(ReduceMin)                \
  X(ReduceProd)               \
  X(ReduceSum)                \
  X(ReduceSumSquare)          \
  X(Relu)                     \
  X(Reshape)                  \
  X(Resize)                   \
  X(ReverseSequence)          \
  X(RoiAlign)                 \
  X(Round)                    \
  X(STFT)                     \
  X(Scatter)                  \
  X(ScatterElements)          \
  X(ScatterND)                \
  X(Selu)                     \
  X(Shape)                    \
  X(Shrink)                   \
  X(Sigmoid)                  \
  X(Sign)                     \
  X(Sin)                      \
  X(Sinh)                     \
  X(Size)                     \
  X(Slice)                    \
  X(Softmax)                  \
  X(Softplus)                 \
  X(Softsign)                 \
  X(SpaceToDepth)             \
  X(Split)                    \
  X(Sqrt)                     \
  X(Squeeze)                  \
  X(Sub)                      \
  X(Sum)                      \
  X(Swish)                    \
  X(Tan)                      \
  X(Tanh)                     \
  X(TensorScatter)            \
  X(ThresholdedRelu)          \
  X(Tile)                     \
  X(TopK)                     \
  X(Transpose)                \
  X(Trilu)                    \
  X(Unique)                   \
  X(Unsqueeze)                \
  X(Upsample)                 \
  X(Where)                    \
  X(Xor)

// Ops of the domain com.microsoft, as ONNX Runtime's quantizer and optimizer write them.
#define TEMPER_MICROSOFT_LIST(X) \
  X(Attention)                   \
  X(BiasGelu)                    \
  X(EmbedLayerNormalization)     \
  X(FastGelu)                    \
  X(Gelu)                        \
  X(GroupQueryAttention)         \
  X(MultiHeadAttention)          \
  X(QGemm)                       \
  X(QLinearAdd)                  \
  X(QLinearAveragePool)          \
  X(QLinearConcat)               \
  X(QLinearGlobalAveragePool)    \
  X(QLinearLeakyRelu)            \
  X(QLinearMul)                  \
  X(QLinearSigmoid)              \
  X(QLinearSoftmax)              \
  X(QuickGelu)                   \
  X(RotaryEmbedding)             \
  X(SkipLayerNormalization)      \
  X(SkipSimplifiedLayerNormalization)

#define X(name) void import_##name(OnnxNode& node);
TEMPER_IMPORT_LIST(X)
namespace microsoft {
TEMPER_MICROSOFT_LIST(X)
}
#undef X

ImportFunction find_import(std::string_view domain, std::string_view op_type) {
#define X(name) {#name, import_##name},
  static const std::unordered_map<std::string_view, ImportFunction> standard = {TEMPER_IMPORT_LIST(X)};
#undef X
#define X(name) {#name, microsoft::import_##name},
  static const std::unordered_map<std::string_view, ImportFunction> of_microsoft = {TEMPER_MICROSOFT_LIST(X)};
#undef X
  if (!domain.empty() && domain != "com.microsoft") return nullptr;
  const auto& list = domain.empty() ? standard : of_microsoft;
  auto it = list.find(op_type);
  return it == list.end() ? nullptr : it->second;
}

}  // namespace temper
