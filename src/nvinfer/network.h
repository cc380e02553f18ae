// SPDX-License-Identifier: Apache-2.0
// A network as a program for TensorRT fills it: from ONNX, by a parser, or layer by layer; or from ONNX with layers
// added and other outputs.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "nvinfer/layers.h"
#include "optimize/model_source.h"

namespace temper::nvinfer {

// Nodes of a model, by their places in the file, and whether they are read: as many that follow each other as possible.
struct Subgraph {
  std::vector<int64_t> nodes;
  bool is_read = false;
};

// An edit that TensorRT rejects, and builds the network without it.
class Rejected : public Error {
 public:
  explicit Rejected(const std::string& what) : Error(ErrorKind::usage, what) {}
};

struct NetworkTensor {
  std::string name;
  DType dtype = DType::f32;
  Dims dims;  // -1: open
};

// Tensors and layers have numbers, which they keep. Those of a parser come first: its layers are the nodes of the
// model. Whatever is asked of tensors behind a layer that does not hold throws Error, with the layer's name.
class Network {
 public:
  Network() = default;
  explicit Network(const LayerRules& rules) : rules_(rules) {}

  // Reads a model's bytes, or the file `path` (with its external data). What is wrong is in `errors`, a line each, and
  // the network stays as it was. A network that has inputs or layers already takes no model.
  bool parse(std::string onnx, const std::string& path, std::vector<std::string>& errors);
  // The same, and which parts of the model are read. The same model, or another one, may be parsed afterwards in its
  // place, as long as nothing is edited.
  bool judge(const std::string& onnx, const std::string& path, std::vector<std::string>& errors,
             std::vector<Subgraph>& subgraphs);

  // Does `edit` to the network. Where it throws Error, every build ends with that from then on: an engine without
  // an edit that the program made would be that of another network.
  template <class Edit>
  void take(Edit&& edit) {
    try {
      edit(*this);
    } catch (const Rejected&) { throw; } catch (const Error& error) {
      end_builds(error.what());
      throw;
    }
  }
  void end_builds(const std::string& why);
  // It has its types in it: those of single layers, and of tensors that are no inputs, cannot be set, and an edit that
  // tries leaves the network as it is, as in TensorRT.
  bool is_strongly_typed() const { return rules_.keeps_float_types; }

  bool is_filled() const { return !outputs_.empty(); }
  ModelSource source() const;                   // of what there is now
  const std::vector<PortInfo>& inputs() const;  // types with symbols; until the network is changed
  const std::vector<PortInfo>& outputs() const;
  const std::string& name() const { return name_; }
  void set_name(const std::string& name) { name_ = name; }
  bool is_quantized() const;  // it has the types of its quantization in it (Q/DQ)

  // All of it as bytes, the parser's model with it, for who builds it again with other weights. Throws
  // Error{unsupported} where weights of the model lie in files beside it. `replaced`: weights of the model, or of
  // layers by LAYER.SETTING, that it gets (refit.h).
  std::string saved() const;
  static Network restored(std::string_view saved, const std::map<std::string, Tensor>& replaced = {});
  // The bytes of the parser's model; "" without one.
  std::string model_bytes() const;

  // ---- layers ----
  int layers() const { return int(layers_.size()); }
  const Layer& layer(int index) const;
  bool is_parsed(int layer) const { return layer < parsed_layers_; }
  // "CONVOLUTION" with inputs that are tensors, -1 where absent; returns the layer's number.
  int add_layer(const std::string& type, const std::vector<int>& inputs);
  // One more where the index is that of the next. A layer of the model takes a tensor of the same type and dimensions.
  void set_input(int layer, int index, int tensor);
  void rename_layer(int layer, const std::string& name);
  // The settings of a layer (layers.h); and "precision", the number of a type that the program wishes for it, of a
  // parser's layers, too (build.h).
  void set(int layer, const std::string& setting, Setting value);
  void reset(int layer, const std::string& setting);
  // Nothing where the program did not set it and it does not follow from the input. Of a node of the model it is what
  // the node says; throws Error{unsupported} for what it does not tell.
  std::optional<Setting> setting(int layer, std::string_view name) const;

  // ---- tensors ----
  NetworkTensor tensor(int tensor) const;
  std::string tensor_name(int tensor) const;
  bool is_input(int tensor) const;
  bool is_output(int tensor) const;
  const std::vector<int>& input_tensors() const { return inputs_; }
  const std::vector<int>& output_tensors() const { return outputs_; }
  int add_input(const std::string& name, DType dtype, const Dims& dims);  // -1 in dims: open
  void rename(int tensor, const std::string& name);
  // Of an input: what the program gives. Of an output: what the program gets. Of another tensor it says nothing, where
  // no identity makes it.
  void set_type(int tensor, DType dtype);
  void reset_type(int tensor);
  bool is_type_set(int tensor) const { return held(tensor).dtype.has_value(); }
  void set_dims(int tensor, const Dims& dims);  // of an input; the model is read again for those of its own
  // Dimensions of inputs with one name are equal at run time.
  void name_dim(int tensor, int axis, const std::string& name);
  std::string dim_name(int tensor, int axis) const;
  void mark_output(int tensor);
  void unmark_output(int tensor);  // nothing happens to one that is none

 private:
  struct Held {  // a tensor, as far as it does not follow
    std::string name;
    std::optional<DType> dtype;  // that the program wants
    int layer = -1;              // what makes it; -1: an input, or a constant of the model
    bool is_added_input = false;
    Dims dims;  // of an added input; of the model's: what the program gave in their place, empty for nothing
    std::vector<std::string> dim_names;  // of an added input; "": none
  };
  // A place where a layer of the model takes another tensor than the model says. `stands_in` is there until the
  // tensor is, which may come from what follows on the model.
  struct Rewired {
    ValueId stands_in;
    int layer, tensor;
  };
  struct Lowered {
    Graph graph;                  // without outputs
    std::vector<ValueId> values;  // by tensor; without a value: not added yet
    std::vector<bool> has;        // by layer: it is in it
    std::vector<Rewired> rewired;
  };

  LayerRules rules_;
  ModelSource source_;  // of the parser
  std::string name_;
  bool parsed_ = false, edited_ = false, judged_ = false;
  int parsed_layers_ = 0;
  std::string ended_;  // why builds end; "": they do not
  // The model as its file is: the names of its values, which are the first tensors, its inputs and outputs.
  std::vector<std::string> value_names_;
  std::vector<PortInfo> model_inputs_;
  std::vector<int> model_outputs_;
  std::set<int> rewired_;  // layers of the model with an input that is not the model's
  std::vector<Held> tensors_;
  std::vector<Layer> layers_;
  std::vector<int> inputs_, outputs_;
  mutable std::shared_ptr<const Graph> model_;  // of the parser; null until it is asked for
  mutable std::optional<Lowered> lowered_;
  // Known by parsing as long as nothing is edited; otherwise nothing until they are asked for.
  mutable std::optional<std::vector<PortInfo>> seen_inputs_, seen_outputs_;

  const Held& held(int tensor) const;
  Held& held(int tensor);
  enum class Edit : uint8_t { ports, graph };  // of names and outputs alone; of what was lowered
  void edit(Edit what);
  std::optional<Setting> setting_of_node(int layer, std::string_view name) const;
  void edit_layer(int layer);
  void put_type(int tensor, DType dtype);
  bool has_dims_of_its_own(size_t input) const;
  const Graph& model() const;
  ValueId value_of(const Lowered& from, int tensor) const;
  void rewire(Graph& whole, const Lowered& from) const;
  // With the inputs, and with the layer and all that it needs, which may have been added after it.
  const Lowered& lowered(int layer) const;
  Lowered& lowered_inputs() const;
  Lowered start() const;
  ValueId add_input_to(Graph& graph, const Held& input, TensorType wanted) const;
  Graph graph() const;
};

// Whether models may have nodes of that op; of one that they may have, some forms are refused.
bool knows_operator(const std::string& name);

bool is_open(const TensorType& type);  // some dimension is not known

}  // namespace temper::nvinfer
