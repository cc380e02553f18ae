// SPDX-License-Identifier: Apache-2.0
// Plans that were changed at random, with hashes that fit again: each is refused by an Error, or loaded and run. A
// sanitizer sees what is read or written beside its place. TEMPER_MUTANTS=10000 makes as many of each kind, TEMPER_SEED
// others.
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "graph/ops/matmul.h"
#include "helpers.h"

namespace temper {
namespace {

using Json = nlohmann::json;

int64_t from_environment(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

struct Original {
  const char* what;
  Tensor file;
};

// Of the reference and of the CPU, in one piece and in slices, of fixed shapes and of an open batch.
const std::vector<Original>& originals() {
  static const std::vector<Original> list = [] {
    std::vector<Original> plans;
    const auto add = [&](const char* what, const char* device, const char* batch,
                         const std::vector<SegmentSpec>& segments = {}) {
      auto engine = std::make_shared<Engine>(info_of(device), small_graph(batch), 2);
      add_plan(engine, {{4, 3, 8, 8}}, segments);
      plans.push_back({what, file_bytes(*engine)});
    };
    add("reference", "reference", "4");
    add("reference in slices", "reference", "4", {{0, 1, 2, false}, {2, 5, 1, true}});
    add("cpu", "cpu", "4");
    add("cpu in slices, open batch", "cpu", "n", {{0, 1, 2, false}, {2, 5, 1, true}});
    return plans;
  }();
  return list;
}

enum class Ending { refused, ran, too_large };

// Anything but an Error passes through, and fails the test.
Ending load_and_run(const Tensor& file) try {
  const auto engine = std::make_shared<const Engine>(read_plan(file.raw(), nullptr, {.candidates = true}));
  Session session(engine);
  for (const auto& plan : engine->plans()) {
    int64_t bytes = plan->arena_bytes(), work = 0;
    for (const auto* ports : {&plan->inputs, &plan->outputs})
      for (const PortInfo& port : *ports) bytes += byte_count(port.type.dtype, port.type.dims());
    for (const Segment& segment : plan->segments) work += segment.slices * int64_t(segment.steps.size());
    if (bytes > 64 << 20 || work > 1000 || plan->threads > 8) return Ending::too_large;
    std::vector<Tensor> inputs;
    for (const PortInfo& port : plan->inputs) inputs.emplace_back(port.type.dtype, port.type.dims());
    session.run(inputs);
  }
  return Ending::ran;
} catch (const Error&) { return Ending::refused; }

class PlanMutants : public ::testing::Test {
 protected:
  // Calls make(original, random) for each mutant; what was refused and what ran is printed.
  void run(const std::function<Tensor(const Original&, std::mt19937&)>& make) {
    const int64_t each = from_environment("TEMPER_MUTANTS", 100);
    const auto seed = uint32_t(from_environment("TEMPER_SEED", 1));
    for (const Original& original : originals()) {
      ASSERT_EQ(load_and_run(original.file), Ending::ran) << original.what;
      int64_t counts[3] = {};
      for (int64_t i = 0; i < each; ++i) {
        std::mt19937 random(seed * 1'000'003u + uint32_t(i));
        SCOPED_TRACE(concat(original.what, ", mutant ", i, " of seed ", seed));
        try {
          ++counts[int(load_and_run(make(original, random)))];
        } catch (const std::exception& error) { ADD_FAILURE() << "no Error: " << error.what(); }
      }
      std::printf("%s: %lld refused, %lld ran, %lld too large to run\n", original.what, (long long)counts[0],
                  (long long)counts[1], (long long)counts[2]);
      EXPECT_GT(counts[0] + counts[1], 0);
    }
  }
  static size_t below(std::mt19937& random, size_t end) { return random() % end; }
};

TEST_F(PlanMutants, EveryFlippedBitOfTheHeadAndTheManifestIsRefused) {
  for (const Original& original : originals()) {
    Tensor file = original.file;
    const int64_t end = read_container(file.raw()).sections.at(0).offset;
    int64_t accepted = 0;
    for (int64_t bit = 0; bit < end * 8; ++bit) {
      file.raw_mutable()[bit / 8] ^= std::byte(1 << bit % 8);
      try {
        read_plan(file.raw(), nullptr);
        if (++accepted < 5) ADD_FAILURE() << original.what << ": bit " << bit;
      } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file) << bit << ": " << error.what(); }
      file.raw_mutable()[bit / 8] ^= std::byte(1 << bit % 8);
    }
    EXPECT_EQ(accepted, 0);
  }
}

// Each 997th byte, so that it takes a second; with TEMPER_MUTANTS=100000 each byte.
TEST_F(PlanMutants, AFlippedBitAnywhereInAMegabyteIsRefused) {
  const int64_t stride = std::max<int64_t>(1, 99'700 / from_environment("TEMPER_MUTANTS", 100));
  Graph graph;
  graph.name = "large";
  const ValueId x = graph.add_input("x", {DType::f32, {Dim(1), Dim(512)}});
  graph.add_output("y", graph.add_single(ops::MatMul{}, {x, graph.add_constant("w", noise({512, 512}, 3))}, "y"));
  auto engine = std::make_shared<Engine>(info_of("reference"), graph, 1);
  add_plan(engine, {{1, 512}});
  Tensor file = file_bytes(*engine);
  ASSERT_GT(file.bytes(), 1 << 20);
  ASSERT_EQ(load_and_run(file), Ending::ran);
  std::mt19937 random(1);
  int64_t accepted = 0, flipped = 0;
  for (int64_t at = 0; at < file.bytes(); at += stride, ++flipped) {
    const std::byte bit = std::byte(1 << random() % 8);
    file.raw_mutable()[at] ^= bit;
    try {
      read_plan(file.raw(), nullptr);
      if (++accepted < 5) ADD_FAILURE() << "byte " << at;
    } catch (const Error& error) { EXPECT_EQ(error.kind(), ErrorKind::bad_file) << at << ": " << error.what(); }
    file.raw_mutable()[at] ^= bit;
  }
  EXPECT_EQ(accepted, 0);
  std::printf("%lld bytes had a bit flipped\n", (long long)flipped);
}

// One or two values of the manifest are others: numbers at the edges, what stands elsewhere, another kind, nothing,
// twice.
TEST_F(PlanMutants, OfValuesOfTheManifestAreRefusedOrRun) {
  run([](const Original& original, std::mt19937& random) {
    return repacked(original.file, [&](std::string& text, auto&) {
      Json json = Json::parse(text);
      for (size_t times = 1 + below(random, 2); times > 0; --times) {
        std::vector<std::string> places;
        const Json flat = json.flatten();
        for (const auto& [pointer, value] : flat.items())
          if (!pointer.starts_with("/info/version") && !pointer.starts_with("/info/revision") &&
              !pointer.starts_with("/info/fingerprint"))
            places.push_back(pointer);
        const Json::json_pointer place(places[below(random, places.size())]),
            other(places[below(random, places.size())]);
        const Json::json_pointer parent = place.parent_pointer();
        const std::vector<Json> edges{0,
                                      1,
                                      -1,
                                      2,
                                      63,
                                      64,
                                      65,
                                      255,
                                      256,
                                      4096,
                                      1 << 20,
                                      INT64_C(1) << 31,
                                      INT64_C(1) << 62,
                                      0.5,
                                      "",
                                      "none",
                                      "local",
                                      "constant",
                                      nullptr,
                                      Json::array(),
                                      Json::object(),
                                      true};
        switch (below(random, 7)) {
          case 0: json[place] = edges[below(random, edges.size())]; break;
          case 1: json[place] = json[other]; break;
          case 2:
            if (json[place].is_number_integer())
              json[place] = json[place].get<int64_t>() + int64_t(below(random, 129)) - 64;
            else json[place] = json[other];
            break;
          case 3:
            if (json[place].is_number_integer()) json[place] = json[place].get<int64_t>() * int64_t(below(random, 3));
            else json[place] = edges[below(random, edges.size())];
            break;
          case 4: {
            const Json::json_pointer theirs = other.parent_pointer();
            const std::string a = parent.to_string() + '/', b = theirs.to_string() + '/';
            // What holds the other would hold itself.
            if (!a.starts_with(b) && !b.starts_with(a)) std::swap(json[parent], json[theirs]);
            break;
          }
          case 5:
            if (json[parent].is_array()) json[parent].erase(below(random, json[parent].size()));
            else json[parent].erase(place.back());
            break;
          case 6:
            if (json[parent].is_array()) json[parent].push_back(json[place]);
            else json[parent][place.back() + "2"] = json[place];
            break;
        }
        if (!json.is_object()) break;
      }
      text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    });
  });
}

TEST_F(PlanMutants, OfBytesOfTheManifestAreRefusedOrRun) {
  run([](const Original& original, std::mt19937& random) {
    return repacked(original.file, [&](std::string& text, auto&) {
      for (size_t times = 1 + below(random, 3); times > 0; --times) {
        const size_t at = below(random, text.size());
        // Digits for digits, so that most of them are still JSON.
        if (std::isdigit(static_cast<unsigned char>(text[at])) && random() % 8)
          text[at] = char('0' + below(random, 10));
        else if (random() % 4 == 0) text.erase(at, 1 + below(random, 20));
        else text[at] = char(random());
      }
    });
  });
}

TEST_F(PlanMutants, OfSectionsAreRefusedOrRun) {
  run([](const Original& original, std::mt19937& random) {
    std::vector<std::vector<std::byte>> kept;
    return repacked(original.file, [&](std::string&, std::vector<SectionToWrite>& sections) {
      SectionToWrite& section = sections[below(random, sections.size())];
      std::vector<std::byte>& bytes = kept.emplace_back(section.parts[0].begin(), section.parts[0].end());
      for (size_t times = 1 + below(random, 4); times > 0 && !bytes.empty(); --times) {
        const size_t at = below(random, bytes.size());
        switch (below(random, 8)) {
          case 0: bytes.resize(at); break;
          case 1: bytes.insert(bytes.begin() + int64_t(at), 1 + below(random, 300), std::byte(random())); break;
          default: bytes[at] = random() % 2 ? bytes[at] ^ std::byte(1 << below(random, 8)) : std::byte(random());
        }
      }
      section.parts[0] = bytes;
    });
  });
}

}  // namespace
}  // namespace temper
