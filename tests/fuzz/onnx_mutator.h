// SPDX-License-Identifier: Apache-2.0
// Mutations of ONNX models, for the harnesses that read them. Plain byte mutations rarely leave valid protobuf behind,
// so half of the mutations work on the wire format: they change one field and mend the lengths of all that enclose it.
#pragma once
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <vector>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

using Random = std::minstd_rand;

struct Field {
  uint64_t number = 0;
  int wire = 0;               // 0 varint, 1 eight bytes, 2 counted bytes, 5 four bytes
  uint64_t value = 0;         // of wire 0, 1, 5
  std::string bytes;          // of wire 2 without fields
  std::vector<Field> fields;  // of wire 2 that reads as a message
  bool message = false;
};

std::optional<uint64_t> read_varint(const std::string& in, size_t& at) {
  uint64_t value = 0;
  for (int shift = 0; shift < 64 && at < in.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in[at++]);
    value |= uint64_t(byte & 127) << shift;
    if (byte < 128) return value;
  }
  return std::nullopt;
}

void write_varint(std::string& out, uint64_t value) {
  for (; value > 127; value >>= 7) out += char(value | 128);
  out += char(value);
}

std::optional<std::vector<Field>> parse(const std::string& in, int depth) {
  std::vector<Field> fields;
  for (size_t at = 0; at < in.size();) {
    const auto tag = read_varint(in, at);
    if (!tag || *tag >> 3 == 0 || *tag >> 3 > 2000) return std::nullopt;
    Field field{.number = *tag >> 3, .wire = int(*tag & 7)};
    if (field.wire == 0) {
      const auto value = read_varint(in, at);
      if (!value) return std::nullopt;
      field.value = *value;
    } else if (field.wire == 1 || field.wire == 5) {
      const size_t width = field.wire == 1 ? 8 : 4;
      if (in.size() - at < width) return std::nullopt;
      std::memcpy(&field.value, in.data() + at, width);
      at += width;
    } else if (field.wire == 2) {
      const auto length = read_varint(in, at);
      if (!length || *length > in.size() - at) return std::nullopt;
      field.bytes = in.substr(at, size_t(*length));
      at += size_t(*length);
      if (auto inner = depth > 0 ? parse(field.bytes, depth - 1) : std::nullopt; inner && !inner->empty()) {
        field.message = true;
        field.fields = std::move(*inner);
      }
    } else {
      return std::nullopt;
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string write(const std::vector<Field>& fields) {
  std::string out;
  for (const Field& field : fields) {
    write_varint(out, field.number << 3 | uint64_t(field.wire));
    if (field.wire == 0) {
      write_varint(out, field.value);
    } else if (field.wire == 2) {
      const std::string inner = field.message ? write(field.fields) : field.bytes;
      write_varint(out, inner.size());
      out += inner;
    } else {
      out.append(reinterpret_cast<const char*>(&field.value), field.wire == 1 ? 8 : 4);
    }
  }
  return out;
}

void collect(std::vector<Field>& fields, std::vector<std::pair<std::vector<Field>*, size_t>>& out) {
  for (size_t i = 0; i < fields.size(); ++i) {
    out.emplace_back(&fields, i);
    if (fields[i].message) collect(fields[i].fields, out);
  }
}

uint64_t interesting(Random& random, uint64_t old) {
  switch (random() % 8) {
    case 0: return 0;
    case 1: return 1;
    case 2: return ~uint64_t(0);
    case 3: return uint64_t(1) << (random() % 64);
    case 4: return old + 1;
    case 5: return old - 1;
    case 6: return random() % 32;  // dtypes, attribute types, small dimensions
    default: return old ^ (uint64_t(1) << (random() % 64));
  }
}

void mutate(std::vector<Field>& root, Random& random) {
  std::vector<std::pair<std::vector<Field>*, size_t>> all;
  collect(root, all);
  if (all.empty()) return;
  auto& [list, i] = all[random() % all.size()];
  const Field other = [&] {
    auto& [l, k] = all[random() % all.size()];
    return (*l)[k];
  }();
  Field& field = (*list)[i];
  switch (random() % 6) {
    case 0: list->erase(list->begin() + long(i)); return;
    case 1: list->insert(list->begin() + long(i), Field(field)); return;
    case 2: list->insert(list->begin() + long(random() % (list->size() + 1)), other); return;
    case 3: field.number = random() % 24 + 1; return;
    case 4: field = other; return;
    default: break;
  }
  if (field.wire != 2) {
    field.value = interesting(random, field.value);
  } else if (field.message && random() % 2) {
    field.fields.resize(random() % (field.fields.size() + 1));
  } else if (!field.message) {
    const size_t limit = field.bytes.size() + 16;
    std::vector<uint8_t> bytes(field.bytes.begin(), field.bytes.end());
    bytes.resize(limit);
    bytes.resize(LLVMFuzzerMutate(bytes.data(), field.bytes.size(), limit));
    field.bytes.assign(bytes.begin(), bytes.end());
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  Random random(seed);
  if (random() % 2 == 0) return LLVMFuzzerMutate(data, size, max_size);
  auto fields = parse({reinterpret_cast<const char*>(data), size}, 12);
  if (!fields) return LLVMFuzzerMutate(data, size, max_size);
  for (auto times = random() % 3 + 1; times > 0; --times) mutate(*fields, random);
  const std::string out = write(*fields);
  if (out.empty() || out.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, out.data(), out.size());
  return out.size();
}
