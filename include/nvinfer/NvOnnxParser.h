// SPDX-License-Identifier: Apache-2.0
// Fills a network from ONNX.
#pragma once
#include <utility>
#include <vector>

#include "NvInfer.h"

#define NV_ONNX_PARSER_MAJOR NV_TENSORRT_MAJOR
#define NV_ONNX_PARSER_MINOR NV_TENSORRT_MINOR
#define NV_ONNX_PARSER_PATCH NV_TENSORRT_PATCH

using SubGraph_t = std::pair<std::vector<std::size_t>, bool>;
using SubGraphCollection_t = std::vector<SubGraph_t>;

namespace nvonnxparser {

enum class ErrorCode : int32_t {
  kSUCCESS = 0,
  kINTERNAL_ERROR = 1,
  kMEM_ALLOC_FAILED = 2,
  kMODEL_DESERIALIZE_FAILED = 3,
  kINVALID_VALUE = 4,
  kINVALID_GRAPH = 5,
  kINVALID_NODE = 6,
  kUNSUPPORTED_GRAPH = 7,
  kUNSUPPORTED_NODE = 8,
};

// Why a model was not read: one text, with the node's name in it where one is to blame.
class IParserError {
 public:
  IParserError(IParserError const&) = delete;
  IParserError& operator=(IParserError const&) = delete;
  ErrorCode code() const noexcept { return ErrorCode::kINVALID_GRAPH; }
  char const* desc() const noexcept { return text_.c_str(); }
  char const* file() const noexcept { return ""; }
  int line() const noexcept { return 0; }
  char const* func() const noexcept { return ""; }
  int node() const noexcept { return -1; }

 protected:
  explicit IParserError(char const* text) : text_(text) {}
  virtual ~IParserError() = default;

 private:
  std::string text_;
};

// Kept, and read back: instance normalization has kernels of its own in any case.
enum class OnnxParserFlag : int32_t { kNATIVE_INSTANCENORM = 0 };
using OnnxParserFlags = uint32_t;

namespace stand_in {
struct ParserError final : IParserError {
  explicit ParserError(char const* text) : IParserError(text) {}
};
}  // namespace stand_in

class IParser : public nvinfer1::stand_in::Object {
 public:
  IParser(nvinfer1::INetworkDefinition& network, nvinfer1::ILogger& logger) noexcept
      : network_(network), logger_(logger) {}

  // `model_path`: where the bytes come from, for weights that lie beside it. False, with lines in the log and in
  // getError(), for what is no model that Temper reads.
  bool parse(void const* serialized_onnx_model, std::size_t serialized_onnx_model_size,
             char const* model_path = nullptr) noexcept {
    return fill(serialized_onnx_model, serialized_onnx_model_size, model_path);
  }
  bool parseFromFile(char const* onnxModelFile, int) noexcept {
    return fill(nullptr, 0, onnxModelFile ? onnxModelFile : "");
  }

  // Whether the model is read, which fills the network then; and the parts of it, as far as they are all read, or not.
#if TEMPER_NVINFER_API < 1100
  bool supportsModel(void const* serialized_onnx_model, std::size_t serialized_onnx_model_size,
                     SubGraphCollection_t& sub_graph_collection, char const* model_path = nullptr) noexcept {
    bool const done = judge(serialized_onnx_model, serialized_onnx_model_size, model_path);
    sub_graph_collection.clear();
    for (auto const& part : parts_)
      sub_graph_collection.emplace_back(std::vector<std::size_t>(part.first.begin(), part.first.end()), part.second);
    return done;
  }
#endif
#if TEMPER_NVINFER_API >= 1000
  bool supportsModelV2(void const* serializedOnnxModel, std::size_t serializedOnnxModelSize,
                       char const* modelPath = nullptr) noexcept {
    return judge(serializedOnnxModel, serializedOnnxModelSize, modelPath);
  }
  int64_t getNbSubgraphs() noexcept { return static_cast<int64_t>(parts_.size()); }
  bool isSubgraphSupported(int64_t const index) noexcept {
    return index >= 0 && index < getNbSubgraphs() && parts_[static_cast<std::size_t>(index)].second;
  }
  // They are the parser's, until it looks at another model.
  int64_t* getSubgraphNodes(int64_t const index, int64_t& subgraphLength) noexcept {
    bool const is_there = index >= 0 && index < getNbSubgraphs();
    subgraphLength = is_there ? static_cast<int64_t>(parts_[static_cast<std::size_t>(index)].first.size()) : 0;
    return is_there ? parts_[static_cast<std::size_t>(index)].first.data() : nullptr;
  }
#endif
  // Whether models may have such nodes, some forms of which may be refused.
  bool supportsOperator(char const* op_name) const noexcept { return temper_nv_knows_operator(op_name) != 0; }

  int getNbErrors() const noexcept { return static_cast<int>(errors_.size()); }
  IParserError const* getError(int index) const noexcept {
    return index >= 0 && index < getNbErrors() ? errors_[static_cast<std::size_t>(index)].get() : nullptr;
  }
  void clearErrors() noexcept { errors_.clear(); }

  void setFlags(OnnxParserFlags flags) noexcept { flags_ = flags; }
  OnnxParserFlags getFlags() const noexcept { return flags_; }
  void setFlag(OnnxParserFlag flag) noexcept { flags_ |= 1u << static_cast<uint32_t>(flag); }
  void clearFlag(OnnxParserFlag flag) noexcept { flags_ &= ~(1u << static_cast<uint32_t>(flag)); }
  bool getFlag(OnnxParserFlag flag) const noexcept { return flags_ >> static_cast<uint32_t>(flag) & 1; }
  // There are none.
  char const* const* getUsedVCPluginLibraries(int64_t& nbPluginLibs) const noexcept {
    nbPluginLibs = 0;
    return nullptr;
  }
#if TEMPER_NVINFER_API >= 1100
  // True: nothing of it is used while a model is read.
  bool setBuilderConfig(nvinfer1::IBuilderConfig const*) noexcept { return true; }
#endif

 private:
  nvinfer1::INetworkDefinition& network_;
  nvinfer1::ILogger& logger_;
  OnnxParserFlags flags_ = 0;
  std::vector<std::unique_ptr<stand_in::ParserError>> errors_;
  std::vector<std::pair<std::vector<int64_t>, bool>> parts_;  // nodes, and whether they are read

  // What is wrong is an error of the parser, and no line of the log: that is what was asked.
  bool judge(void const* bytes, std::size_t size, char const* path) noexcept {
    parts_.clear();
    int32_t const done = temper_nv_network_judge(
        network_.native(), bytes, size, path, this,
        [](void* self, char const* text) {
          static_cast<IParser*>(self)->errors_.emplace_back(new stand_in::ParserError(text));
        },
        [](void* self, int64_t const* nodes, int64_t count, int32_t is_read) {
          static_cast<IParser*>(self)->parts_.emplace_back(std::vector<int64_t>(nodes, nodes + count), is_read != 0);
        });
    if (done) network_.filled();
    return done != 0;
  }
  bool fill(void const* bytes, std::size_t size, char const* path) noexcept {
    int32_t const done =
        temper_nv_network_parse(network_.native(), bytes, size, path, this, [](void* self, char const* text) {
          IParser& parser = *static_cast<IParser*>(self);
          parser.errors_.emplace_back(new stand_in::ParserError(text));
          nvinfer1::stand_in::error(nvinfer1::stand_in::log_of(parser.logger_), text);
        });
    if (done) network_.filled();
    return done != 0;
  }
};

inline IParser* createParser(nvinfer1::INetworkDefinition& network, nvinfer1::ILogger& logger) noexcept {
  return new IParser(network, logger);
}

#if TEMPER_NVINFER_API >= 1000
// There is none: weights are given to the refitter by their names.
class IParserRefitter {
 public:
  IParserRefitter(IParserRefitter const&) = delete;
  IParserRefitter& operator=(IParserRefitter const&) = delete;
  virtual ~IParserRefitter() noexcept = default;
};
// Null, with an error in the log.
inline IParserRefitter* createParserRefitter(nvinfer1::IRefitter&, nvinfer1::ILogger& logger) noexcept {
  nvinfer1::stand_in::error(nvinfer1::stand_in::log_of(logger),
                            "createParserRefitter: not in Temper (a refitter takes weights by their names); call "
                            "IRefitter::setNamedWeights instead");
  return nullptr;
}
#endif

}  // namespace nvonnxparser
