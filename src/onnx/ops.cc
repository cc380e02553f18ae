// SPDX-License-Identifier: Apache-2.0
// THE list of imports, from the name of an ONNX op to its function. The functions are in ops/, one file per family
// named after its main op.
#include <string>
#include <unordered_map>

#include "onnx/node.h"

namespace temper {

// One a line, in alphabetical order.
#define TEMPER_IMPORT_LIST(X)  \
  X(Abs)                       \
  X(Acos)                      \
  X(Acosh)                     \
  X(Add)                       \
  X(AffineGrid)                \
  X(And)                       \
  X(ArgMax)                    \
  X(ArgMin)                    \
  X(Asin)                      \
  X(Asinh)                     \
  X(Atan)                      \
  X(Atanh)                     \
  X(Attention)                 \
  X(AveragePool)               \
  X(BatchNormalization)        \
  X(Bernoulli)                 \
  X(BitCast)                   \
  X(BitShift)                  \
  X(BitwiseAnd)                \
  X(BitwiseNot)                \
  X(BitwiseOr)                 \
  X(BitwiseXor)                \
  X(Cast)                      \
  X(CastLike)                  \
  X(Ceil)                      \
  X(Celu)                      \
  X(Clip)                      \
  X(Col2Im)                    \
  X(Compress)                  \
  X(Concat)                    \
  X(ConcatFromSequence)        \
  X(Constant)                  \
  X(ConstantOfShape)           \
  X(Conv)                      \
  X(ConvInteger)               \
  X(ConvTranspose)             \
  X(Cos)                       \
  X(Cosh)                      \
  X(CumProd)                   \
  X(CumSum)                    \
  X(DFT)                       \
  X(DeformConv)                \
  X(DepthToSpace)              \
  X(DequantizeLinear)          \
  X(Det)                       \
  X(Div)                       \
  X(Dropout)                   \
  X(Einsum)                    \
  X(Elu)                       \
  X(Equal)                     \
  X(Erf)                       \
  X(Exp)                       \
  X(Expand)                    \
  X(EyeLike)                   \
  X(Flatten)                   \
  X(Floor)                     \
  X(GRU)                       \
  X(Gather)                    \
  X(GatherElements)            \
  X(GatherND)                  \
  X(Gelu)                      \
  X(Gemm)                      \
  X(GlobalAveragePool)         \
  X(GlobalLpPool)              \
  X(GlobalMaxPool)             \
  X(Greater)                   \
  X(GreaterOrEqual)            \
  X(GridSample)                \
  X(GroupNormalization)        \
  X(HardSigmoid)               \
  X(HardSwish)                 \
  X(Hardmax)                   \
  X(Identity)                  \
  X(If)                        \
  X(ImageDecoder)              \
  X(InstanceNormalization)     \
  X(IsInf)                     \
  X(IsNaN)                     \
  X(LRN)                       \
  X(LSTM)                      \
  X(LayerNormalization)        \
  X(LeakyRelu)                 \
  X(Less)                      \
  X(LessOrEqual)               \
  X(Log)                       \
  X(LogSoftmax)                \
  X(Loop)                      \
  X(LpNormalization)           \
  X(LpPool)                    \
  X(MatMul)                    \
  X(MatMulInteger)             \
  X(Max)                       \
  X(MaxPool)                   \
  X(MaxRoiPool)                \
  X(MaxUnpool)                 \
  X(Mean)                      \
  X(MeanVarianceNormalization) \
  X(MelWeightMatrix)           \
  X(Min)                       \
  X(Mish)                      \
  X(Mod)                       \
  X(Mul)                       \
  X(Multinomial)               \
  X(Neg)                       \
  X(NonMaxSuppression)         \
  X(NonZero)                   \
  X(Not)                       \
  X(OneHot)                    \
  X(Optional)                  \
  X(OptionalGetElement)        \
  X(OptionalHasElement)        \
  X(Or)                        \
  X(PRelu)                     \
  X(Pad)                       \
  X(Pow)                       \
  X(QLinearConv)               \
  X(QLinearMatMul)             \
  X(QuantizeLinear)            \
  X(RMSNormalization)          \
  X(RNN)                       \
  X(RandomNormal)              \
  X(RandomNormalLike)          \
  X(RandomUniform)             \
  X(RandomUniformLike)         \
  X(Range)                     \
  X(Reciprocal)                \
  X(ReduceL1)                  \
  X(ReduceL2)                  \
  X(ReduceLogSum)              \
  X(ReduceLogSumExp)           \
  X(ReduceMax)                 \
  X(ReduceMean)                \
  X(ReduceMin)                 \
  X(ReduceProd)                \
  X(ReduceSum)                 \
  X(ReduceSumSquare)           \
  X(RegexFullMatch)            \
  X(Relu)                      \
  X(Reshape)                   \
  X(Resize)                    \
  X(ReverseSequence)           \
  X(RoiAlign)                  \
  X(Round)                     \
  X(STFT)                      \
  X(Scan)                      \
  X(Scatter)                   \
  X(ScatterElements)           \
  X(ScatterND)                 \
  X(Selu)                      \
  X(SequenceAt)                \
  X(SequenceConstruct)         \
  X(SequenceEmpty)             \
  X(SequenceErase)             \
  X(SequenceInsert)            \
  X(SequenceLength)            \
  X(SequenceMap)               \
  X(Shape)                     \
  X(Shrink)                    \
  X(Sigmoid)                   \
  X(Sign)                      \
  X(Sin)                       \
  X(Sinh)                      \
  X(Size)                      \
  X(Slice)                     \
  X(Softmax)                   \
  X(Softplus)                  \
  X(Softsign)                  \
  X(SpaceToDepth)              \
  X(Split)                     \
  X(SplitToSequence)           \
  X(Sqrt)                      \
  X(Squeeze)                   \
  X(StringConcat)              \
  X(StringNormalizer)          \
  X(StringSplit)               \
  X(Sub)                       \
  X(Sum)                       \
  X(Swish)                     \
  X(Tan)                       \
  X(Tanh)                      \
  X(TensorScatter)             \
  X(TfIdfVectorizer)           \
  X(ThresholdedRelu)           \
  X(Tile)                      \
  X(TopK)                      \
  X(Transpose)                 \
  X(Trilu)                     \
  X(Unique)                    \
  X(Unsqueeze)                 \
  X(Upsample)                  \
  X(Where)                     \
  X(Xor)

// Ops of the domain com.microsoft, as ONNX Runtime's quantizer and optimizer write them.
#define TEMPER_MICROSOFT_LIST(X)      \
  X(Attention)                        \
  X(BiasAdd)                          \
  X(BiasGelu)                         \
  X(BiasSplitGelu)                    \
  X(CDist)                            \
  X(DequantizeLinear)                 \
  X(DynamicQuantizeLSTM)              \
  X(DynamicQuantizeMatMul)            \
  X(EmbedLayerNormalization)          \
  X(ExpandDims)                       \
  X(FastGelu)                         \
  X(FusedConv)                        \
  X(FusedGemm)                        \
  X(FusedMatMul)                      \
  X(GatherBlockQuantized)             \
  X(Gelu)                             \
  X(GridSample)                       \
  X(GroupNorm)                        \
  X(GroupQueryAttention)              \
  X(Inverse)                          \
  X(MatMulIntegerToFloat)             \
  X(MatMulNBits)                      \
  X(MultiHeadAttention)               \
  X(NhwcMaxPool)                      \
  X(Pad)                              \
  X(QAttention)                       \
  X(QGemm)                            \
  X(QLinearAdd)                       \
  X(QLinearAveragePool)               \
  X(QLinearConcat)                    \
  X(QLinearConv)                      \
  X(QLinearGlobalAveragePool)         \
  X(QLinearLeakyRelu)                 \
  X(QLinearMul)                       \
  X(QLinearSigmoid)                   \
  X(QLinearSoftmax)                   \
  X(QLinearWhere)                     \
  X(QuantizeLinear)                   \
  X(QuickGelu)                        \
  X(Range)                            \
  X(RotaryEmbedding)                  \
  X(SimplifiedLayerNormalization)     \
  X(SkipGroupNorm)                    \
  X(SkipLayerNormalization)           \
  X(SkipSimplifiedLayerNormalization) \
  X(Tokenizer)                        \
  X(TransposeMatMul)                  \
  X(Trilu)                            \
  X(Unique)

// Ops of the domain ai.onnx.ml, which converters of scikit-learn and of boosted trees write.
#define TEMPER_ML_LIST(X)   \
  X(ArrayFeatureExtractor)  \
  X(Binarizer)              \
  X(CastMap)                \
  X(CategoryMapper)         \
  X(DictVectorizer)         \
  X(FeatureVectorizer)      \
  X(Imputer)                \
  X(LabelEncoder)           \
  X(LinearClassifier)       \
  X(LinearRegressor)        \
  X(Normalizer)             \
  X(OneHotEncoder)          \
  X(SVMClassifier)          \
  X(SVMRegressor)           \
  X(Scaler)                 \
  X(TreeEnsemble)           \
  X(TreeEnsembleClassifier) \
  X(TreeEnsembleRegressor)  \
  X(ZipMap)

// Ops of the domain ai.onnx.preview.training.
#define TEMPER_TRAINING_LIST(X) \
  X(Adagrad)                    \
  X(Adam)                       \
  X(Momentum)

// Plugins of TensorRT that exports of detectors hold, in the domain TRT (read.cc puts those without a domain there).
#define TEMPER_TENSORRT_LIST(X) X(EfficientNMS_TRT)

#define X(name) void import_##name(OnnxNode& node);
TEMPER_IMPORT_LIST(X)
namespace tensorrt {
TEMPER_TENSORRT_LIST(X)
}
namespace ml {
TEMPER_ML_LIST(X)
}
namespace training {
TEMPER_TRAINING_LIST(X)
}
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
#define X(name) {#name, ml::import_##name},
  static const std::unordered_map<std::string_view, ImportFunction> of_ml = {TEMPER_ML_LIST(X)};
#undef X
#define X(name) {#name, tensorrt::import_##name},
  static const std::unordered_map<std::string_view, ImportFunction> of_tensorrt = {TEMPER_TENSORRT_LIST(X)};
#undef X
#define X(name) {#name, training::import_##name},
  static const std::unordered_map<std::string_view, ImportFunction> of_training = {TEMPER_TRAINING_LIST(X)};
#undef X
  static const std::unordered_map<std::string_view, const std::unordered_map<std::string_view, ImportFunction>*>
      domains = {{"", &standard},
                 {"com.microsoft", &of_microsoft},
                 {"ai.onnx.ml", &of_ml},
                 {"TRT", &of_tensorrt},
                 {"ai.onnx.preview.training", &of_training}};
  const auto found = domains.find(domain);
  if (found == domains.end()) return nullptr;
  const auto& list = *found->second;
  auto it = list.find(op_type);
  return it == list.end() ? nullptr : it->second;
}

}  // namespace temper
