// SPDX-License-Identifier: Apache-2.0
// Format: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#include "data/npy.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/checked.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/small_types.h"
#include "base/string_table.h"
#include "graph/strings.h"

namespace temper {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxNpyRank = 64;  // NumPy's own limit
constexpr int64_t kMostCharacters = int64_t(1) << 28;

[[noreturn]] void bad_header(std::string_view why) {
  fail(ErrorKind::bad_file, "the .npy header ", why, "; write the file with numpy.save");
}

// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } with the keys in any order and blanks between tokens.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  void parse(NpyHeader& header) {
    expect('{');
    bool descr = false, order = false, shape = false;
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      auto once = [&](bool& seen) {
        if (seen) bad_header(concat("names '", key, "' twice"));
        seen = true;
      };
      if (key == "descr") once(descr), dtype(header);
      else if (key == "fortran_order") once(order), header.fortran_order = boolean();
      else if (key == "shape") once(shape), header.dims = tuple();
      else bad_header("has an unknown key");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) bad_header("goes on after its closing brace");
    if (!descr || !order || !shape) bad_header("lacks one of descr, fortran_order, shape");
  }

 private:
  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) bad_header(concat("is damaged: '", c, "' is missing at character ", at_));
  }
  std::string_view string() {
    const char quote = accept('\'') ? '\'' : '"';
    if (quote == '"') expect('"');
    const auto end = text_.find(quote, at_);
    if (end == text_.npos || end - at_ > 64) bad_header("is damaged: a string does not end");
    const std::string_view value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_blanks();
    for (bool value : {false, true}) {
      const std::string_view word = value ? "True" : "False";
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return value;
      }
    }
    bad_header("is damaged: fortran_order is neither True nor False");
  }
  Dims tuple() {
    Dims dims;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      const auto value = parse_leading<int64_t>(text_.substr(at_));
      if (!value || value->value < 0) bad_header("has a dimension that is not a number from 0 to 2^63-1");
      at_ = text_.size() - value->rest.size();
      if (dims.size() == kMaxNpyRank) bad_header(concat("has more than ", kMaxNpyRank, " dimensions"));
      dims.push_back(value->value);
      accept('L');  // Python 2 wrote long integers like this
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return dims;
  }
  void dtype(NpyHeader& header) {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[')
      fail(ErrorKind::unsupported, "the .npy file holds records; save each field as an array of its own");
    const std::string_view descr = string();
    static constexpr std::pair<std::string_view, DType> kinds[] = {
        {"b1", DType::boolean}, {"i1", DType::i8},  {"u1", DType::u8},  {"i2", DType::i16},
        {"u2", DType::u16},     {"i4", DType::i32}, {"u4", DType::u32}, {"i8", DType::i64},
        {"u8", DType::u64},     {"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64}};
    if (descr.size() >= 2) {
      const char order = descr[0];
      const auto characters = parse_number<int64_t>(descr.substr(2));
      const bool wide = descr[1] == 'U' && (order == '<' || order == '>');
      if (characters && *characters >= 1 && *characters <= kMostCharacters &&
          (wide || (descr[1] == 'S' && order == '|'))) {
        header.dtype = DType::string;
        header.characters = *characters;
        header.wide = wide;
        header.swap_bytes = order == '>';
        return;
      }
      for (const auto& [kind, dtype] : kinds) {
        if (kind != descr.substr(1)) continue;
        const bool one_byte = size_of(dtype) == 1;
        if (order != '<' && order != '>' && !(one_byte && order == '|')) break;
        header.dtype = dtype;
        header.swap_bytes = order == '>' && !one_byte;
        return;
      }
    }
    const bool printable = std::all_of(descr.begin(), descr.end(), [](char c) { return c >= ' ' && c <= '~'; });
    fail(ErrorKind::unsupported, "the .npy element type '", printable ? descr : std::string_view("?"),
         "' is not supported; convert the array to bool, an integer of 8 to 64 bits, a float of 16 to 64 bits or "
         "strings of one width");
  }

  std::string_view text_;
  size_t at_ = 0;
};

void swap_elements(Tensor& tensor) {
  const size_t width = size_t(size_of(tensor.dtype()));
  std::byte* at = tensor.raw_mutable();
  for (int64_t i = 0; i < tensor.count(); ++i, at += width) std::reverse(at, at + width);
}

// Element i of the file, first index fastest, goes to its place in C order.
Tensor from_fortran_order(DType dtype, const Dims& dims, const std::byte* bytes) {
  Tensor tensor(dtype, dims);
  const size_t width = size_t(size_of(dtype));
  const Dims strides = row_major_strides(dims);
  Dims index(dims.size(), 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    std::memcpy(tensor.raw_mutable() + size_t(offset) * width, bytes + size_t(i) * width, width);
    for (size_t axis = 0; axis < dims.size(); ++axis) {
      offset += strides[axis];
      if (++index[axis] < dims[axis]) break;
      offset -= strides[axis] * dims[axis];
      index[axis] = 0;
    }
  }
  return tensor;
}

std::string string_of(const NpyHeader& header, const std::byte* bytes) {
  std::string text;
  if (!header.wide) {
    text.assign(reinterpret_cast<const char*>(bytes), size_t(header.characters));
  } else {
    for (int64_t i = 0; i < header.characters; ++i, bytes += 4) {
      uint32_t character = 0;
      for (int b = 0; b < 4; ++b) character |= uint32_t(bytes[header.swap_bytes ? 3 - b : b]) << (8 * b);
      if (character > 0x10ffff || (character >= 0xd800 && character < 0xe000))
        fail(ErrorKind::bad_file, "the .npy file holds ", character, " where the code of a character belongs");
      append_utf8(text, character);
    }
  }
  while (!text.empty() && text.back() == 0) text.pop_back();
  return text;
}

Tensor read_strings(const NpyHeader& header, std::span<const std::byte> data) {
  const Dims dims = header.fortran_order ? Dims(header.dims.rbegin(), header.dims.rend()) : header.dims;
  const int64_t width = header.characters * (header.wide ? 4 : 1);
  Tensor codes(DType::u64, dims);
  for (int64_t i = 0; i < codes.count(); ++i)
    codes.data<uint64_t>()[i] = current_strings().code_of(string_of(header, data.data() + i * width));
  if (header.fortran_order && dims.size() > 1) codes = from_fortran_order(DType::u64, header.dims, codes.raw().data());
  return codes.reshaped(header.dims).with_bits_as(DType::string);
}

// Of one width, that of the longest.
struct WideStrings {
  int64_t characters = 1;
  std::string bytes;
};
WideStrings wide_strings(const Tensor& tensor) {
  std::vector<std::vector<uint32_t>> all;
  WideStrings wide;
  for (const std::string& given : strings_of(tensor)) {
    const std::string text = as_utf8(given);
    auto& characters = all.emplace_back();
    for (size_t at = 0; at < text.size(); at += utf8_length(text, at)) characters.push_back(utf8_character(text, at));
    wide.characters = std::max(wide.characters, int64_t(characters.size()));
  }
  for (auto& characters : all) {
    characters.resize(size_t(wide.characters));
    wide.bytes.append(reinterpret_cast<const char*>(characters.data()), characters.size() * 4);
  }
  return wide;
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!text.starts_with(kMagic))
    fail(ErrorKind::bad_file, "not an .npy file: it does not begin with NumPy's magic bytes");
  if (text.size() < 10) bad_header("is cut off");
  const int major = uint8_t(text[6]), minor = uint8_t(text[7]);
  if (major < 1 || major > 3 || minor != 0)
    fail(ErrorKind::unsupported, ".npy format version ", major, ".", minor,
         " is not supported; the supported ones are 1.0, 2.0 and 3.0");
  const size_t length_bytes = major == 1 ? 2 : 4;
  if (text.size() < 8 + length_bytes) bad_header("is cut off");
  size_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= size_t(uint8_t(text[8 + i])) << (8 * i);
  NpyHeader header;
  header.data_offset = 8 + length_bytes + length;
  if (header.data_offset > kMaxNpyHeader) bad_header(concat("claims ", length, " bytes; the limit is ", kMaxNpyHeader));
  if (header.data_offset > text.size()) bad_header("is cut off");
  HeaderParser(text.substr(8 + length_bytes, length)).parse(header);
  byte_count(header.dtype, header.dims);  // throws where the size overflows
  return header;
}

Tensor parse_npy(std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
  const NpyHeader header = parse_npy_header(bytes);
  const auto data = bytes.subspan(header.data_offset);
  const int64_t needed = header.dtype == DType::string
                             ? checked_mul(element_count(header.dims), header.characters * (header.wide ? 4 : 1))
                             : byte_count(header.dtype, header.dims);
  if (uint64_t(needed) != data.size())
    fail(ErrorKind::bad_file, "the .npy header says ", header.dtype, header.dims, ", which is ", needed,
         " bytes of data; the file has ", data.size());
  if (header.dtype == DType::string) return read_strings(header, data);
  const bool transposed = header.fortran_order && header.dims.size() > 1, flags = header.dtype == DType::boolean;
  const bool aligned = reinterpret_cast<uintptr_t>(data.data()) % uintptr_t(size_of(header.dtype)) == 0;
  if (owner && aligned && !header.swap_bytes && !transposed && !flags)
    return Tensor::view(header.dtype, header.dims, data.data(), std::move(owner));
  Tensor tensor =
      transposed ? from_fortran_order(header.dtype, header.dims, data.data()) : Tensor(header.dtype, header.dims);
  if (!transposed && needed > 0) std::memcpy(tensor.raw_mutable(), data.data(), size_t(needed));
  if (header.swap_bytes) swap_elements(tensor);
  if (flags)  // a bool object may hold nothing but 0 and 1
    for (std::byte& flag : std::span(tensor.raw_mutable(), size_t(tensor.count())))
      flag = std::byte(flag != std::byte(0));
  return tensor;
}

Tensor read_npy(const std::string& path) {
  auto file = std::make_shared<MappedFile>(path);
  return with_context([&] { return concat("'", path, "'"); }, [&] { return parse_npy(file->bytes(), file); });
}

void write_npy(const std::string& path, const Tensor& tensor, bool force) {
  static constexpr std::string_view descrs[kDTypeCount] = {"<f4", "<f2", "",    "<f8", "|i1", "|u1", "<i2",
                                                           "<u2", "<i4", "<u4", "<i8", "<u8", "|b1"};
  // numpy itself has neither bfloat16 nor the types that are stored only.
  if (is_small_int(tensor.dtype())) return write_npy(path, tensor.with_bits_as(carrier_of(tensor.dtype())), force);
  if (tensor.dtype() == DType::bf16 || (is_stored_only(tensor.dtype()) && tensor.dtype() != DType::string))
    return write_npy(path, tensor.converted(DType::f32), force);
  const WideStrings strings = tensor.dtype() == DType::string ? wide_strings(tensor) : WideStrings();
  const std::string descr =
      tensor.dtype() == DType::string ? concat("<U", strings.characters) : std::string(descrs[int(tensor.dtype())]);
  std::string header = concat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (");
  for (int64_t dim : tensor.dims()) append(header, dim), header += tensor.rank() == 1 ? "," : ", ";
  if (tensor.rank() > 1) header.resize(header.size() - 2);
  header += "), }";
  header.append(round_up<size_t>(10 + header.size() + 1, 64) - 10 - header.size() - 1, ' ');
  header += '\n';
  std::string start = concat(kMagic, std::string_view("\x01\x00", 2));
  start += char(header.size() & 0xff);
  start += char(header.size() >> 8);
  AtomicFile file({path, FileKind::npy, force});
  file.write(start.data(), start.size());
  file.write(header.data(), header.size());
  if (tensor.dtype() == DType::string) file.write(strings.bytes.data(), strings.bytes.size());
  else file.write(tensor.raw().data(), tensor.raw().size());
  file.commit();
}

}  // namespace temper
