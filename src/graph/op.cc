// SPDX-License-Identifier: Apache-2.0
#include "graph/op.h"

#include "graph/fields.h"

namespace temper {

namespace {
template <class Variant>
struct Check;
template <OpStruct... Ops>
struct Check<std::variant<Ops...>> {};
[[maybe_unused]] Check<Op> every_op_has_all_members;

template <size_t I = 0>
Op default_op(std::string_view name) {
  if constexpr (I == std::variant_size_v<Op>) {
    fail(ErrorKind::bad_file, "there is no op '", name, "'");
  } else {
    using T = std::variant_alternative_t<I, Op>;
    if (T::name == name) return T{};
    return default_op<I + 1>(name);
  }
}
}  // namespace

std::string_view name_of(const Op& op) {
  return std::visit([]<class T>(const T&) { return std::string_view(T::name); }, op);
}

std::string fields_text(const Op& op) {
  std::string out;
  std::visit(
      [&]<class T>(const T& self) {
        const T standard{};
        std::vector<std::string> defaults;
        T::fields(standard, [&](std::string_view, const auto& value) { print_field(defaults.emplace_back(), value); });
        size_t i = 0;
        T::fields(self, [&](std::string_view field, const auto& value) {
          std::string text;
          print_field(text, value);
          if (text != defaults[i++]) out += concat(out.empty() ? "" : " ", field, '=', text);
        });
      },
      op);
  return out;
}

Op parse_op(std::string_view name, std::string_view fields) {
  Op op = default_op(name);
  while (!fields.empty()) {
    const auto equals = fields.find('=');
    if (equals == fields.npos) fail(ErrorKind::bad_file, name, ": '", fields.substr(0, 80), "' is not field=value");
    const std::string_view field = fields.substr(0, equals);
    fields.remove_prefix(equals + 1);
    size_t end = 0;
    bool quoted = false;
    while (end < fields.size() && (quoted || fields[end] != ' ')) quoted ^= fields[end++] == '"';
    const std::string_view text = fields.substr(0, end);
    fields.remove_prefix(std::min(end + 1, fields.size()));
    bool found = false;
    std::visit(
        [&]<class T>(T& self) {
          T::fields(self, [&](std::string_view candidate, auto& value) {
            if (candidate != field) return;
            found = true;
            with_context([&] { return concat(name, '.', field); }, [&] { parse_field(text, value); });
          });
        },
        op);
    if (!found) fail(ErrorKind::bad_file, "the op '", name, "' has no field '", field.substr(0, 80), "'");
  }
  return op;
}

std::vector<TensorType> infer(const Op& op, const InferContext& context) {
  return std::visit(
      [&]<class T>(const T& self) {
        if constexpr (requires(T copy) { copy.absorb(context); }) {
          if (T known = self; context.size() > T::data_inputs && known.absorb(context))
            return known.infer(context.first(T::data_inputs));
        }
        return self.infer(context);
      },
      op);
}

std::vector<Tensor> reference(const Op& op, std::span<const Tensor> inputs, std::span<const TensorType> outputs) {
  return std::visit([&](const auto& self) { return self.reference(inputs, outputs); }, op);
}

std::optional<size_t> absorb(Op& op, const InferContext& context) {
  return std::visit(
      [&]<class T>(T& self) -> std::optional<size_t> {
        if constexpr (requires { self.absorb(context); }) {
          if (context.size() > T::data_inputs && self.absorb(context)) return T::data_inputs;
        }
        return std::nullopt;
      },
      op);
}

bool is_concrete(const Op& op) {
  bool concrete = true;
  std::visit(
      [&]<class T>(const T& self) {
        T::fields(self, [&](std::string_view, const auto& value) { concrete &= is_concrete_field(value); });
      },
      op);
  return concrete;
}

void substitute(Op& op, const Bindings& bindings) {
  std::visit(
      [&]<class T>(T& self) {
        T::fields(self, [&](std::string_view, auto& value) { substitute_field(value, bindings); });
      },
      op);
}

Program* epilogue_of(Op& op) {
  return std::visit(
      []<class T>(T& self) -> Program* {
        if constexpr (requires { self.epilogue; }) return &self.epilogue;
        else if constexpr (requires { self.conv.epilogue; }) return &self.conv.epilogue;
        else return nullptr;
      },
      op);
}

const ops::Conv* conv_of(const Op& op) {
  if (const auto* fused = std::get_if<ops::FusedConv>(&op)) return &fused->conv;
  return std::get_if<ops::Conv>(&op);
}

const ops::Reduce* reduce_of(const Op& op) {
  if (const auto* fused = std::get_if<ops::FusedReduce>(&op)) return &fused->reduce;
  return std::get_if<ops::Reduce>(&op);
}

}  // namespace temper
