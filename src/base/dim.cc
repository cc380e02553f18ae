// SPDX-License-Identifier: Apache-2.0
#include "base/dim.h"

#include <algorithm>
#include <stdexcept>

#include "base/checked.h"
#include "base/parse.h"

namespace temper {

// Atoms are ordered and compared by their canonical text, which is built once.
struct Dim::Atom {
  enum class Kind { symbol, floor_div, max, min } kind;
  std::string text;
  std::shared_ptr<const Dim> a, b;
  auto operator<=>(const Atom& other) const { return text <=> other.text; }
  bool operator==(const Atom& other) const { return text == other.text; }
};
struct Dim::Terms : std::map<std::vector<Dim::Atom>, int64_t> {};

// An honest model's sizes stay far below; a hostile one could double an expression with every node.
constexpr size_t kMaxTerms = 256, kMaxText = 4096;

Dim Dim::make(int64_t constant, Terms terms) {
  Dim dim(constant);
  std::erase_if(terms, [](const auto& term) { return term.second == 0; });
  if (terms.size() > kMaxTerms)
    fail(ErrorKind::unsupported, "a dimension is an expression of more than ", kMaxTerms, " terms");
  if (!terms.empty()) dim.terms_ = std::make_shared<const Terms>(std::move(terms));
  return dim;
}

Dim Dim::atom(Atom atom) {
  if (atom.text.size() > kMaxText)
    fail(ErrorKind::unsupported, "a dimension is an expression of more than ", kMaxText, " characters");
  Terms terms;
  terms[{std::move(atom)}] = 1;
  return make(0, std::move(terms));
}

Dim Dim::symbol(std::string_view name) { return atom(Atom{Atom::Kind::symbol, std::string(name), nullptr, nullptr}); }

Dim operator+(const Dim& a, const Dim& b) {
  Dim::Terms terms;
  if (a.terms_) terms = *a.terms_;
  if (b.terms_)
    for (const auto& [atoms, factor] : *b.terms_) terms[atoms] = checked_add(terms[atoms], factor);
  return Dim::make(checked_add(a.constant_, b.constant_), std::move(terms));
}

Dim operator*(const Dim& a, const Dim& b) {
  Dim::Terms terms;
  auto add = [&](const std::vector<Dim::Atom>& atoms, int64_t factor) {
    terms[atoms] = checked_add(terms[atoms], factor);
  };
  if (a.terms_)
    for (const auto& [atoms, factor] : *a.terms_) add(atoms, checked_mul(factor, b.constant_));
  if (b.terms_)
    for (const auto& [atoms, factor] : *b.terms_) add(atoms, checked_mul(factor, a.constant_));
  if (a.terms_ && b.terms_)
    for (const auto& [left, f] : *a.terms_)
      for (const auto& [right, g] : *b.terms_) {
        std::vector<Dim::Atom> atoms(left.size() + right.size());
        if (atoms.size() > Dim::kMaxFactors)
          fail(ErrorKind::unsupported, "a dimension is a product of more than ", Dim::kMaxFactors, " factors");
        std::merge(left.begin(), left.end(), right.begin(), right.end(), atoms.begin());
        add(atoms, checked_mul(f, g));
      }
  return Dim::make(checked_mul(a.constant_, b.constant_), std::move(terms));
}

bool operator==(const Dim& a, const Dim& b) {
  if (a.constant_ != b.constant_ || bool(a.terms_) != bool(b.terms_)) return false;
  return a.terms_ == b.terms_ || *a.terms_ == *b.terms_;
}

Dim floor_div(const Dim& a, const Dim& b) {
  if (b == Dim(1)) return a;
  if (b.is_constant() && b.constant_ == 0) fail(ErrorKind::bad_file, "division of a dimension by zero");
  if (a.is_constant() && b.is_constant()) {
    const int64_t quotient = a.constant_ / b.constant_, rest = a.constant_ % b.constant_;
    return quotient - (rest != 0 && (rest < 0) != (b.constant_ < 0) ? 1 : 0);
  }
  if (b.is_constant() && b.constant_ > 0) {
    // floor((k*n + r) / k) = n + floor(r / k): terms that divide leave the brackets.
    Dim::Terms whole, rest;
    for (const auto& [atoms, factor] : *a.terms_)
      (factor % b.constant_ == 0 ? whole : rest)[atoms] = factor % b.constant_ == 0 ? factor / b.constant_ : factor;
    if (rest.empty()) return Dim::make(floor_div(Dim(a.constant_), b).constant_, std::move(whole));
    if (!whole.empty()) return Dim::make(0, std::move(whole)) + floor_div(Dim::make(a.constant_, std::move(rest)), b);
  } else if (a == b) {
    return 1;
  } else if (b.terms_ && b.terms_->size() == 1 && b.constant_ == 0 && a.constant_ == 0 && a.terms_) {
    // A product divided by one of its factors: (H*W) / W = H. Zero-sized dimensions cannot be divided by anyway.
    const auto& [divisor, divisor_factor] = *b.terms_->begin();
    Dim::Terms result;
    bool exact = true;
    for (const auto& [atoms, factor] : *a.terms_) {
      if (factor % divisor_factor != 0 || !std::includes(atoms.begin(), atoms.end(), divisor.begin(), divisor.end())) {
        exact = false;
        break;
      }
      std::vector<Dim::Atom> left;
      std::set_difference(atoms.begin(), atoms.end(), divisor.begin(), divisor.end(), std::back_inserter(left));
      result[left] += factor / divisor_factor;
    }
    if (exact) {
      int64_t constant = 0;
      if (auto it = result.find({}); it != result.end()) {
        constant = it->second;
        result.erase(it);
      }
      return Dim::make(constant, std::move(result));
    }
  }
  return Dim::atom({Dim::Atom::Kind::floor_div, concat("floor(", a, ",", b, ")"), std::make_shared<Dim>(a),
                    std::make_shared<Dim>(b)});
}

Dim dim_max(const Dim& a, const Dim& b) {
  if (Dim difference = a - b; difference.is_constant()) return difference.constant_ >= 0 ? a : b;
  // Whether x >= y for all values of the symbols, as far as it shows: max(n, min(n, 512)) is n.
  constexpr int kDeepest = 3;  // of atoms in atoms: each asks four times
  const auto covers = [](const auto& self, const Dim& x, const Dim& y, int depth) -> bool {
    if (Dim difference = x - y; difference.is_constant()) return difference.constant_ >= 0;
    if (depth == kDeepest) return false;
    const auto atom_of = [](const Dim& dim) -> const Dim::Atom* {
      const auto* one = dim.only_atom();
      return one && (one->kind == Dim::Atom::Kind::max || one->kind == Dim::Atom::Kind::min) ? one : nullptr;
    };
    if (const auto* inner = atom_of(y)) {
      const bool first = self(self, x, *inner->a, depth + 1), second = self(self, x, *inner->b, depth + 1);
      if (inner->kind == Dim::Atom::Kind::min ? first || second : first && second) return true;
    }
    if (const auto* outer = atom_of(x)) {
      const bool first = self(self, *outer->a, y, depth + 1), second = self(self, *outer->b, y, depth + 1);
      if (outer->kind == Dim::Atom::Kind::max ? first || second : first && second) return true;
    }
    return false;
  };
  if (covers(covers, a, b, 0)) return a;
  if (covers(covers, b, a, 0)) return b;
  return Dim::atom(
      {Dim::Atom::Kind::max, concat("max(", a, ",", b, ")"), std::make_shared<Dim>(a), std::make_shared<Dim>(b)});
}
Dim dim_min(const Dim& a, const Dim& b) {
  if (const Dim larger = dim_max(a, b); larger == a) return b;
  else if (larger == b) return a;
  return Dim::atom(
      {Dim::Atom::Kind::min, concat("min(", a, ",", b, ")"), std::make_shared<Dim>(a), std::make_shared<Dim>(b)});
}

const Dim::Atom* Dim::only_atom() const {
  if (!terms_ || constant_ != 0 || terms_->size() != 1) return nullptr;
  const auto& [atoms, factor] = *terms_->begin();
  return factor == 1 && atoms.size() == 1 ? &atoms[0] : nullptr;
}

bool Dim::is_symbol() const {
  const Atom* one = only_atom();
  return one && one->kind == Atom::Kind::symbol;
}

std::string Dim::text() const {
  std::string out;
  if (terms_)
    for (const auto& [atoms, factor] : *terms_) {
      if (!out.empty() && factor >= 0) out += '+';
      if (factor == -1) out += '-';
      else if (factor != 1) append(out, factor), out += '*';
      for (size_t i = 0; i < atoms.size(); ++i) {
        if (i) out += '*';
        out += atoms[i].text;
      }
    }
  if (out.empty() || constant_ != 0) {
    if (!out.empty() && constant_ > 0) out += '+';
    append(out, constant_);
  }
  return out;
}

// The sum of products again, of what f(atom, whether it is a term by itself) gives.
template <class F>
Dim Dim::map_atoms(const F& f) const {
  if (!terms_) return *this;
  Dim sum(constant_);
  for (const auto& [atoms, factor] : *terms_) {
    Dim product(factor);
    for (const Atom& a : atoms) product = product * f(a, factor == 1 && atoms.size() == 1);
    sum = sum + product;
  }
  return sum;
}

// The atom again, of what f gives for the dimensions in it.
template <class F>
Dim Dim::map_parts(const Atom& a, const F& f) {
  switch (a.kind) {
    case Atom::Kind::symbol: return atom(a);
    case Atom::Kind::floor_div: return floor_div(f(*a.a), f(*a.b));
    case Atom::Kind::max: return dim_max(f(*a.a), f(*a.b));
    case Atom::Kind::min: return dim_min(f(*a.a), f(*a.b));
  }
  return {};
}

Dim Dim::substitute(const Bindings& bindings) const {
  return map_atoms([&](const Atom& a, bool) {
    const auto it = a.kind == Atom::Kind::symbol ? bindings.find(a.text) : bindings.end();
    return it != bindings.end() ? Dim(it->second)
                                : map_parts(a, [&](const Dim& part) { return part.substitute(bindings); });
  });
}

Dim Dim::replace(const Dim& what, const Dim& with) const {
  const Atom* sought = what.only_atom();
  if (!sought) throw std::logic_error(concat("'", what, "' is to be replaced, which is more than one symbol"));
  const bool in_products = with.only_atom();
  return map_atoms([&](const Atom& a, bool alone) {
    if (a == *sought) return alone || in_products ? with : what;
    return map_parts(a, [&](const Dim& part) { return part.replace(what, with); });
  });
}

bool Dim::is_non_negative() const {
  if (constant_ < 0) return false;
  if (!terms_) return true;
  for (const auto& [atoms, factor] : *terms_) {
    if (factor < 0) return false;
    for (const Atom& a : atoms) {
      const bool left = a.kind == Atom::Kind::symbol || a.a->is_non_negative();
      const bool right = a.kind == Atom::Kind::symbol || a.b->is_non_negative();
      if (a.kind == Atom::Kind::max ? !left && !right : !left || !right) return false;
    }
  }
  return true;
}

void Dim::collect_symbols(std::vector<std::string>& out) const {
  if (!terms_) return;
  for (const auto& term : *terms_)
    for (const Atom& a : term.first) {
      if (a.kind == Atom::Kind::symbol) {
        if (std::find(out.begin(), out.end(), a.text) == out.end()) out.push_back(a.text);
      } else {
        a.a->collect_symbols(out);
        a.b->collect_symbols(out);
      }
    }
}

// sum := ['-'] product {('+'|'-') product};  product := factor {'*' factor};
// factor := integer | symbol | ('floor'|'max'|'min') '(' sum ',' sum ')'
struct DimParser {
  std::string_view text;
  size_t at = 0;
  int depth = 0;

  [[noreturn]] void error() { fail(ErrorKind::bad_file, "not a dimension: '", text.substr(0, 80), "'"); }
  char peek() const { return at < text.size() ? text[at] : '\0'; }
  void expect(char c) {
    if (peek() != c) error();
    ++at;
  }
  static bool is_symbol(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
           c == '$';
  }
  Dim sum() {
    if (++depth > 32) error();
    bool negative = peek() == '-';
    if (negative) ++at;
    Dim result = negative ? Dim(-1) * product() : product();
    while (peek() == '+' || peek() == '-') {
      negative = text[at++] == '-';
      result = negative ? result - product() : result + product();
    }
    --depth;
    return result;
  }
  Dim product() {
    Dim result = factor();
    while (peek() == '*') ++at, result = result * factor();
    return result;
  }
  Dim factor() {
    size_t start = at;
    while (is_symbol(peek())) ++at;
    std::string_view word = text.substr(start, at - start);
    if (word.empty()) error();
    if (word[0] >= '0' && word[0] <= '9') {
      const auto value = parse_number<int64_t>(word);
      if (!value) error();
      return *value;
    }
    if (peek() != '(') return Dim::symbol(word);
    ++at;
    Dim a = sum();
    expect(',');
    Dim b = sum();
    expect(')');
    if (word == "floor") return floor_div(a, b);
    if (word == "max") return dim_max(a, b);
    if (word == "min") return dim_min(a, b);
    error();
  }
};

Dim Dim::parse(std::string_view text) {
  DimParser parser{text};
  Dim result = parser.sum();
  if (parser.at != text.size()) parser.error();
  return result;
}

}  // namespace temper
