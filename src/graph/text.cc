// SPDX-License-Identifier: Apache-2.0
// The text form of a graph, one line each:
//   graph "name"
//   input %x: f32[batch,3,8,8]
//   const %w: f32[2] = [0.5,1]          or  = #k, an index into the blobs beside the text
//   %y: f32[batch,2], %z: i64[1] = op(%x, _, %w) field=value field="program" @"node name"
//   output "y" = %y
// Names of letters, digits and _.:/-$ stand bare; others in quotes with \" and \\. '_' is an absent input.
#include <unordered_map>

#include "base/hash.h"
#include "base/parse.h"
#include "graph/fields.h"
#include "graph/graph.h"

namespace temper {

namespace {

constexpr int64_t kInlineElements = 16;

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == ':' || c == '/' || c == '-' || c == '$';
}

void quote(std::string& out, std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  out += '"';
  for (char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += {'\\', c};
    else if (byte < 0x20 || byte == 0x7f) out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    else out += c;
  }
  out += '"';
}

// ':' separates name and type, so a bare name must not end with one.
void print_name(std::string& out, std::string_view name) {
  out += '%';
  bool bare = !name.empty() && name.back() != ':';
  for (char c : name) bare &= is_bare(c);
  if (bare) out += name;
  else quote(out, name);
}

// Of a type that is stored only, the codes.
void print_constant(std::string& out, const Tensor& given) {
  const Tensor tensor = given.with_bits_as(carrier_of(given.dtype()));
  out += '[';
  visit_dtype(tensor.dtype(), [&]<class T>() {
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (i) out += ',';
      if constexpr (std::is_integral_v<T>) append(out, int64_t(tensor.data<T>()[i]));
      else if constexpr (std::is_same_v<T, float>) append(out, tensor.data<T>()[i]);
      else append(out, double(tensor.data<T>()[i]));
    }
  });
  out += ']';
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const Tensor> blobs) : text_(text), blobs_(blobs) {}

  Graph run() {
    while (at_ < text_.size()) {
      ++line_;
      with_context([&] { return concat("graph text, line ", line_); }, [&] { line(); });
    }
    return std::move(graph_);
  }

 private:
  std::string_view text_;
  std::span<const Tensor> blobs_;
  size_t at_ = 0;
  int line_ = 0;
  Graph graph_;
  std::unordered_map<std::string, ValueId> values_;

  [[noreturn]] void error(std::string_view what) {
    fail(ErrorKind::bad_file, what, " is expected at '", text_.substr(at_, 40), "'");
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!accept(word)) error(concat('\'', word, '\''));
  }
  void end_of_line() {
    if (at_ < text_.size()) expect("\n");
  }

  std::string quoted() {
    expect("\"");
    std::string out;
    while (peek() != '"') {
      if (peek() == '\0' || peek() == '\n') error("a closing quote");
      char c = text_[at_++];
      if (c == '\\') {
        if (at_ == text_.size()) error("a character after '\\\\'");
        c = text_[at_++];
        if (c == 'x') {
          const auto digits = text_.substr(at_, 2);
          const auto value = parse_number<unsigned>(digits, 16);
          if (!value || digits.size() != 2) error("two hexadecimal digits");
          at_ += 2;
          c = char(*value);
        }
      }
      out += c;
    }
    ++at_;
    return out;
  }
  std::string value_name() {
    expect("%");
    if (peek() == '"') return quoted();
    const size_t start = at_;
    while (is_bare(peek())) ++at_;
    if (at_ > start && text_[at_ - 1] == ':') --at_;
    if (at_ == start) error("a name");
    return std::string(text_.substr(start, at_ - start));
  }
  TensorType type() {
    const size_t start = at_;
    const auto close = text_.find(']', at_);
    if (close == text_.npos) error("a type");
    at_ = close + 1;
    return TensorType::parse(text_.substr(start, at_ - start));
  }
  ValueId known(const std::string& name) {
    auto it = values_.find(name);
    if (it == values_.end()) fail(ErrorKind::bad_file, "the value '", name, "' is not defined before its use");
    return it->second;
  }
  void define(const std::string& name, ValueId id) {
    if (!values_.emplace(name, id).second) fail(ErrorKind::bad_file, "the value '", name, "' is defined twice");
  }

  void constant() {
    const std::string name = value_name();
    expect(": ");
    const TensorType t = type();
    expect(" = ");
    if (accept("#")) {
      const auto index = parse_leading<size_t>(text_.substr(at_));
      if (!index || index->value >= blobs_.size()) error("the number of a stored constant");
      at_ = text_.size() - index->rest.size();
      const Tensor& blob = blobs_[index->value];
      if (blob.type() != t) fail(ErrorKind::bad_file, "constant '", name, "' is ", t, " but stored as ", blob.type());
      define(name, graph_.add_constant(name, blob));
      return;
    }
    const auto close = text_.find(']', at_);
    if (peek() != '[' || close == text_.npos) error("a list of numbers");
    const std::string_view list = text_.substr(at_, close + 1 - at_);
    at_ = close + 1;
    const Dims dims = t.dims();
    if (element_count(dims) > kInlineElements)
      fail(ErrorKind::bad_file, "constant '", name, "' is too large to stand in the text");
    Tensor tensor(carrier_of(t.dtype), dims);
    visit_dtype(tensor.dtype(), [&]<class T>() {
      std::vector<std::conditional_t<std::is_integral_v<T>, int64_t, double>> values;
      parse_field(list, values);
      if (int64_t(values.size()) != tensor.count())
        fail(ErrorKind::bad_file, "constant '", name, "' has ", values.size(), " values");
      for (size_t i = 0; i < values.size(); ++i) tensor.data<T>()[i] = static_cast<T>(values[i]);
    });
    define(name, graph_.add_constant(name, tensor.with_bits_as(t.dtype)));
  }

  void node() {
    std::vector<std::string> names;
    std::vector<TensorType> types;
    do {
      names.push_back(value_name());
      expect(": ");
      types.push_back(type());
    } while (accept(", "));
    expect(" = ");
    size_t start = at_;
    while (is_bare(peek())) ++at_;
    const std::string_view op = text_.substr(start, at_ - start);
    expect("(");
    std::vector<ValueId> inputs;
    while (!accept(")")) {
      if (!inputs.empty()) expect(", ");
      if (accept("_")) inputs.push_back({});
      else inputs.push_back(known(value_name()));
    }
    start = at_;
    bool in_quotes = false;
    while (at_ < text_.size() && peek() != '\n' && (in_quotes || peek() != '@')) in_quotes ^= text_[at_++] == '"';
    std::string_view fields = text_.substr(start, at_ - start);
    while (!fields.empty() && fields.front() == ' ') fields.remove_prefix(1);
    while (!fields.empty() && fields.back() == ' ') fields.remove_suffix(1);
    std::string node_name = accept("@") ? quoted() : names[0];
    const auto outputs = graph_.add(parse_op(op, fields), std::move(inputs), node_name, names);
    if (outputs.size() != names.size()) fail(ErrorKind::bad_file, op, " has ", outputs.size(), " outputs");
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (graph_.type(outputs[i]) != types[i])
        fail(ErrorKind::bad_file, "'", names[i], "' is written as ", types[i], " but is ", graph_.type(outputs[i]));
      define(names[i], outputs[i]);
    }
  }

  void line() {
    if (accept("\n")) return;
    if (accept("graph ")) graph_.name = quoted();
    else if (accept("input ")) {
      const std::string name = value_name();
      expect(": ");
      define(name, graph_.add_input(name, type()));
    } else if (accept("const ")) constant();
    else if (accept("output ")) {
      const std::string name = quoted();
      expect(" = ");
      graph_.add_output(name, known(value_name()));
    } else node();
    end_of_line();
  }
};

}  // namespace

std::string print(const Graph& graph, std::vector<Tensor>* blobs) {
  std::string out = "graph ";
  quote(out, graph.name);
  out += '\n';
  auto declare = [&](ValueId id) {
    print_name(out, graph.value(id).name);
    out += concat(": ", graph.type(id));
  };
  for (ValueId id : graph.inputs()) {
    out += "input ";
    declare(id);
    out += '\n';
  }
  size_t blob = 0;
  std::vector<char> printed(size_t(graph.value_count()), 0);
  auto constant = [&](ValueId id) {
    const Tensor* tensor = graph.constant(id);
    if (!tensor || printed[size_t(id.index)]++) return;
    out += "const ";
    declare(id);
    out += " = ";
    if (tensor->count() <= kInlineElements) print_constant(out, *tensor);
    else {
      out += concat('#', blob++);
      if (blobs) blobs->push_back(*tensor);
    }
    out += '\n';
  };
  for (int32_t n = 0; n < graph.node_count(); ++n) {
    const Node& node = graph.node({n});
    for (ValueId input : node.inputs)
      if (input.valid()) constant(input);
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (i) out += ", ";
      declare(node.outputs[i]);
    }
    out += concat(" = ", name_of(node.op), '(');
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (i) out += ", ";
      if (node.inputs[i].valid()) print_name(out, graph.value(node.inputs[i]).name);
      else out += '_';
    }
    out += ')';
    if (const std::string fields = fields_text(node.op); !fields.empty()) out += ' ' + fields;
    if (node.name != graph.value(node.outputs[0]).name) {
      out += " @";
      quote(out, node.name);
    }
    out += '\n';
  }
  for (const GraphOutput& output : graph.outputs()) constant(output.value);
  for (const GraphOutput& output : graph.outputs()) {
    out += "output ";
    quote(out, output.name);
    out += " = ";
    print_name(out, graph.value(output.value).name);
    out += '\n';
  }
  return out;
}

Graph parse_graph(std::string_view text, std::span<const Tensor> blobs) { return Parser(text, blobs).run(); }

uint64_t hash(const Graph& graph) {
  std::vector<Tensor> blobs;
  std::string all = print(graph, &blobs);
  for (const Tensor& blob : blobs) all += hex(xxh3(blob.raw().data(), blob.raw().size()));
  return xxh3(all);
}

}  // namespace temper
