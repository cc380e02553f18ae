// SPDX-License-Identifier: Apache-2.0
// Plans that someone changed and whose hashes he computed again: the checks behind the hashes refuse each of them.
#include <cstring>
#include <functional>
#include <nlohmann/json.hpp>

#include "helpers.h"

namespace temper {
namespace {

using Json = nlohmann::json;

std::pair<ErrorKind, std::string> refusal_of_manifest(const Tensor& file, const std::function<void(Json&)>& change) {
  return refusal(repacked(file, [&](std::string& manifest, auto&) {
                   Json json = Json::parse(manifest);
                   change(json);
                   manifest = json.dump();
                 }).raw());
}

class HostilePlan : public ::testing::Test {
 protected:
  static Tensor small(const std::string& device, const std::string& batch = "2",
                      const std::vector<SegmentSpec>& segments = {}) {
    auto engine = std::make_shared<Engine>(info_of(device), small_graph(batch), 2);
    add_plan(engine, {{2, 3, 8, 8}}, segments);
    return file_bytes(*engine);
  }
};

struct Edit {
  const char* what;
  const char* pointer;  // into the manifest
  Json value;
};

void expect_refused(const Tensor& file, const std::vector<Edit>& edits) {
  for (const Edit& edit : edits) {
    const auto [kind, message] = refusal_of_manifest(file, [&](Json& json) {
      ASSERT_TRUE(json.contains(Json::json_pointer(edit.pointer))) << edit.pointer;
      ASSERT_NE(json[Json::json_pointer(edit.pointer)], edit.value) << edit.pointer;
      json[Json::json_pointer(edit.pointer)] = edit.value;
    });
    EXPECT_EQ(kind, ErrorKind::bad_file) << edit.what << ": " << message;
  }
}

constexpr int64_t kHuge = int64_t(1) << 62;

TEST_F(HostilePlan, TheUnchangedOneIsAccepted) {
  for (const std::string device : {"cpu", "reference"}) {
    const Tensor file =
        repacked(small(device), [](std::string& manifest, auto&) { manifest = Json::parse(manifest).dump(); });
    EXPECT_EQ(read_plan(file.raw(), nullptr).plans.size(), 1u);
  }
}

// Steps of the reference: 0 conv, 1 pool, 2 conv with residual, 3 matmul, 4 pointwise. A port is [type, layout, kind,
// offset or index, distance of slices].
TEST_F(HostilePlan, ReferencesOutsideOfTheirBuffers) {
  expect_refused(small("reference"),
                 {
                     {"an input that does not exist", "/plans/0/segments/0/steps/0/inputs/0/3", 1},
                     {"an offset in the arena behind its end", "/plans/0/segments/0/steps/0/outputs/0/3", 1 << 20},
                     {"an offset near the largest number", "/plans/0/segments/0/steps/0/outputs/0/3", kHuge},
                     {"an offset that is no multiple of 64", "/plans/0/segments/0/steps/1/outputs/0/3", 4},
                     {"a negative offset", "/plans/0/segments/0/steps/0/outputs/0/3", -64},
                     {"an offset that is no integer", "/plans/0/segments/0/steps/0/outputs/0/3", 0.5},
                     {"an offset beyond 64 bits", "/plans/0/segments/0/steps/0/outputs/0/3", 18446744073709551615ull},
                     {"a constant that does not exist", "/plans/0/segments/0/steps/0/inputs/1/3", 99},
                     {"another constant", "/plans/0/segments/0/steps/0/inputs/1/3", 3},
                     {"a missing buffer", "/plans/0/segments/0/steps/0/inputs/0/2", "none"},
                     {"a missing constant", "/plans/0/segments/0/steps/0/inputs/1/2", "none"},
                     {"a kind that does not exist", "/plans/0/segments/0/steps/0/inputs/0/2", "heap"},
                     {"an output in a constant", "/plans/0/segments/0/steps/0/outputs/0/2", "constant"},
                     {"an output in the user's input", "/plans/0/segments/0/steps/0/outputs/0/2", "input"},
                     {"an output that is too small", "/plans/0/segments/0/steps/0/outputs/0/2", "output"},
                     {"a distance of slices in a buffer of one slice", "/plans/0/segments/0/steps/0/outputs/0/4", 64},
                     {"an input of the segment in the shared part, which is empty",
                      "/plans/0/segments/0/steps/1/inputs/0/2", "shared"},
                     {"an output that nothing writes", "/plans/0/segments/0/steps/4/outputs/0/2", "local"},
                     {"no such constant in the table", "/plans/0/constants/0", 99},
                 });
}

TEST_F(HostilePlan, SlicesOutsideOfTheirBuffers) {
  const Tensor file = small("reference", "2", {{0, 1, 1, false}, {2, 5, 1, true}});
  expect_refused(file, {
                           {"slices without end", "/plans/0/segments/0/slices", kHuge},
                           {"one slice too many", "/plans/0/segments/0/slices", 3},
                           {"no slices", "/plans/0/segments/0/slices", 0},
                           {"a larger distance", "/plans/0/segments/0/steps/0/inputs/0/4", 3 * 8 * 8 * 4 + 4},
                           {"a distance that overflows", "/plans/0/segments/0/steps/0/inputs/0/4", kHuge},
                           {"a distance inside an element", "/plans/0/segments/0/steps/0/inputs/0/4", 3},
                           {"a constant in slices", "/plans/0/segments/0/steps/0/inputs/1/4", 64},
                       });
}

TEST_F(HostilePlan, ArenasThatDoNotFit) {
  const Json plan = Json::parse(std::string(read_container(small("reference").raw()).manifest))["plans"][0];
  const int64_t local = plan["segments"][0]["local_bytes"];
  expect_refused(small("reference"),
                 {
                     {"a segment that ends inside an element", "/plans/0/segments/0/local_bytes", local - 6},
                     {"a huge arena", "/plans/0/shared_bytes", kHuge},
                     {"a large arena", "/plans/0/shared_bytes", int64_t(1) << 39},
                     {"a huge segment", "/plans/0/segments/0/local_bytes", kHuge},
                     {"a large segment", "/plans/0/segments/0/local_bytes", int64_t(1) << 39},
                     {"a segment that is too small", "/plans/0/segments/0/local_bytes", 4096},
                     {"a workspace outside", "/plans/0/segments/0/workspace_at", int64_t(1) << 30},
                     {"a workspace over the buffers", "/plans/0/segments/0/workspace_at", 0},
                     {"a workspace larger than its place", "/plans/0/segments/0/steps/0/workspace", kHuge},
                     {"a workspace other than the kernel's", "/plans/0/segments/0/steps/0/workspace", 64},
                 });
  // What the first segment leaves to the second one lies in front of both.
  const Tensor two = small("reference", "2", {{0, 1, 1, false}, {2, 5, 1, true}});
  const Json whole = Json::parse(std::string(read_container(two.raw()).manifest));
  const int64_t shared = whole["plans"][0]["shared_bytes"];
  ASSERT_GT(shared, 0);
  expect_refused(two, {{"an arena that ends inside an element", "/plans/0/shared_bytes", shared - 6}});
}

// Steps: 0 and 1 are pointwise and write into 2, a concat; both parts are one piece of memory.
TEST_F(HostilePlan, PartsOfLargerTensorsThatAreNone) {
  const Graph graph = parse_graph(
      "graph \"g\"\ninput %x: f32[1,64]\n%a: f32[1,64] = pointwise(%x) program=\"(1) 1=neg.f32(0)\"\n"
      "%b: f32[1,64] = pointwise(%x) program=\"(1) 1=relu.f32(0)\"\n%c: f32[1,128] = concat(%a, %b) axis=1\n"
      "%y: f32[1,128] = pointwise(%c) program=\"(1) 1=neg.f32(0)\"\noutput \"y\" = %y\n");
  auto engine = std::make_shared<Engine>(info_of("cpu"), graph, 1);
  add_plan(engine, {{1, 64}});
  const Json part = {"f32[1,64]", "plain", "local", 0, 0, 256, 0};
  const Json manifest = Json::parse(std::string(read_container(file_bytes(*engine).raw()).manifest));
  ASSERT_EQ(manifest["plans"][0]["segments"][0]["steps"][1]["outputs"][0], part);
  auto changed = [&](size_t item, const Json& value) {
    Json json = part;
    json[item] = value;
    return json;
  };
  const std::string b = "/plans/0/segments/0/steps/1/outputs/0", in = "/plans/0/segments/0/steps/2/inputs/1",
                    out = "/plans/0/segments/0/steps/2/outputs/0";
  expect_refused(
      file_bytes(*engine),
      {
          {"a part behind the end", b.c_str(), changed(5, 1 << 20)},
          {"a part near the largest number", b.c_str(), changed(5, kHuge)},
          {"a part in front of the beginning", b.c_str(), changed(5, -256)},
          {"a part between the alignments of buffers", b.c_str(), changed(5, 32)},
          {"rows shorter than they are", b.c_str(), changed(6, 8)},
          {"rows that overflow", b.c_str(), changed(6, kHuge)},
          {"rows between alignments", b.c_str(), changed(6, 65)},
          {"rows for a kernel that has none", b.c_str(), changed(6, 64)},
          {"an offset without a pitch", b.c_str(), Json{"f32[1,64]", "plain", "local", 0, 0, 256}},
          {"an output that is in place", b.c_str(), changed(0, "f32[1,64]=")},
          {"an input in place where nothing is joined", "/plans/0/segments/0/steps/3/inputs/0/0", "f32[1,128]="},
          {"an input in place elsewhere", in.c_str(), Json{"f32[1,64]=", "plain", "local", 0, 0, 0, 0}},
          {"a part of the user's input", in.c_str(), Json{"f32[1,64]", "plain", "input", 0, 0, 256, 0}},
          {"an output with rows that nothing writes so", out.c_str(),
           Json{"f32[1,128]", "plain", "local", 0, 0, 0, 256}},
      });
}

TEST_F(HostilePlan, TypesThatDoNotFit) {
  expect_refused(
      small("reference"),
      {
          {"an output shape that does not follow", "/plans/0/segments/0/steps/0/outputs/0/0", "f32[2,16,8,9]"},
          {"a smaller output shape", "/plans/0/segments/0/steps/0/outputs/0/0", "f32[2,16,8,7]"},
          {"another dtype", "/plans/0/segments/0/steps/0/outputs/0/0", "f64[2,16,8,8]"},
          {"a larger input", "/plans/0/segments/0/steps/0/inputs/0/0", "f32[2,3,800,800]"},
          {"a symbol", "/plans/0/segments/0/steps/0/inputs/0/0", "f32[n,3,8,8]"},
          {"a negative dimension", "/plans/0/segments/0/steps/0/inputs/0/0", "f32[-2,3,8,8]"},
          {"a product that overflows", "/plans/0/segments/0/steps/0/inputs/0/0",
           "f32[4294967296,4294967296,4294967296,8]"},
          {"an empty tensor whose strides overflow", "/plans/0/segments/0/steps/0/inputs/0/0",
           "f32[0,4611686018427387904,4611686018427387904,8]"},
          {"no type", "/plans/0/segments/0/steps/0/inputs/0/0", "f32"},
          {"an absent input with a buffer", "/plans/0/segments/0/steps/0/inputs/0/0", "_"},
          {"a layout that does not fit", "/plans/0/segments/0/steps/4/outputs/0/1", "blocked16"},
          {"a layout that does not exist", "/plans/0/segments/0/steps/4/outputs/0/1", "blocked17"},
          {"a layout that the tactic does not have", "/plans/0/segments/0/steps/1/inputs/0/1", "channels_last"},
          {"an op that does not exist", "/plans/0/segments/0/steps/0/tactic/op", "convolute"},
          {"another op", "/plans/0/segments/0/steps/0/tactic/op", "softmax"},
          {"a field that does not exist", "/plans/0/segments/0/steps/0/tactic/fields", "stride=[1,1]"},
          {"a stride of zero", "/plans/0/segments/0/steps/0/tactic/fields", "strides=[0,0]"},
          {"packed constants that nothing reads", "/plans/0/segments/0/steps/0/tactic/packed", 0},
          {"packed constants that do not exist", "/plans/0/segments/0/steps/0/tactic/packed", 99},
          {"packed constants before the first", "/plans/0/segments/0/steps/0/tactic/packed", -2},
          {"too many threads", "/threads", 1 << 20},
          {"no threads", "/threads", 0},
          {"more threads than the plan", "/plans/0/segments/0/steps/0/threads", 3},
          {"a model with another input", "/inputs/0/1", "f32[3,3,8,8]"},
          {"a model with another name", "/inputs/0/0", "z"},
          {"a model with another output", "/outputs/0/1", "f32[2,11]"},
          {"a tensor of another size", "/tensors/0/0", "f32[16,3,3,4]"},
          {"a tensor behind the end", "/tensors/3/2", kHuge},
          {"tensors over each other", "/tensors/3/2", 0},
          {"a tensor in a section that is not there", "/tensors/3/1", false},
          {"a time that is no number", "/plans/0/segments/0/steps/0/ms", nullptr},
          {"a list where an object belongs", "/plans/0", Json::array()},
          {"a number where a list belongs", "/plans", 1},
      });
}

TEST_F(HostilePlan, PackedConstantsOfTheCpu) {
  const Tensor file = small("cpu");
  // The first step that packs.
  const Json manifest = Json::parse(std::string(read_container(file.raw()).manifest));
  const Json& steps = manifest["plans"][0]["segments"][0]["steps"];
  std::string step;
  for (size_t i = 0; i < steps.size() && step.empty(); ++i)
    if (steps[i]["tactic"].is_object() && steps[i]["tactic"]["name"] == "cpu.conv.onednn")
      step = concat("/plans/0/segments/0/steps/", i);
  ASSERT_FALSE(step.empty());
  const int packed = manifest[Json::json_pointer(step + "/tactic/packed")];
  const std::string packed_at = step + "/tactic/packed", config_at = step + "/tactic/config",
                    layout_at = step + "/inputs/0/1", weights_at = step + "/inputs/1/0";
  expect_refused(file, {
                           {"none", packed_at.c_str(), -1},
                           {"those of another step", packed_at.c_str(), packed == 0 ? 1 : 0},
                           {"weights that are no constant", weights_at.c_str(), "f32[16,3,3,3]"},
                           {"a configuration of another tactic", config_at.c_str(), "inner_product"},
                       });
  // A kernel that would write in another order than the next one reads, or padded channels where there is no room.
  for (size_t i = 0; i < steps.size(); ++i)
    if (const Json& tactic = steps[i]["tactic"];
        tactic.is_object() && tactic["name"].get<std::string>().starts_with("cpu.pool")) {
      const auto [kind, message] = refusal_of_manifest(file, [&](Json& json) {
        Json& layout = json["plans"][0]["segments"][0]["steps"][i]["outputs"][0][1];
        layout = layout == "plain" ? "blocked8" : "plain";
      });
      EXPECT_EQ(kind, ErrorKind::bad_file) << message;
    }
  // oneDNN knows no such implementation on this machine: that is how another version of it looks.
  EXPECT_EQ(
      refusal_of_manifest(file, [&](Json& json) { json[Json::json_pointer(config_at)] = "direct nothing all"; }).first,
      ErrorKind::unsupported);
}

TEST_F(HostilePlan, AnotherTacticOrVersionOfItIsNotSupported) {
  const Tensor file = small("reference");
  for (const auto& [pointer, value] :
       std::vector<std::pair<const char*, Json>>{{"/plans/0/segments/0/steps/0/tactic/name", "reference.fast"},
                                                 {"/plans/0/segments/0/steps/0/tactic/name", "cpu.conv.onednn"},
                                                 {"/plans/0/segments/0/steps/0/tactic/version", 99}})
    EXPECT_EQ(
        refusal_of_manifest(file, [at = Json::json_pointer(pointer), to = value](Json& json) { json[at] = to; }).first,
        ErrorKind::unsupported);
}

TEST_F(HostilePlan, AStepThatGoesBackwardsWithAKernelThatDoesNotIsRefused) {
  expect_refused(small("reference"), {{"a convolution", "/plans/0/segments/0/steps/0/backwards", true}});
  expect_refused(small("cpu"), {{"a convolution", "/plans/0/segments/0/steps/0/backwards", true}});
}

TEST_F(HostilePlan, AnotherVersionBuildOrMachineIsRefusedWithTheCommand) {
  const Tensor file = small("reference");
  for (const char* key : {"version", "revision", "fingerprint", "device"}) {
    const auto [kind, message] = refusal_of_manifest(file, [&](Json& json) { json["info"][key] = "something else"; });
    EXPECT_EQ(kind, ErrorKind::unsupported) << key;
    EXPECT_NE(message.find("something else"), std::string::npos) << message;
    EXPECT_NE(message.find("build it again: temper build small.onnx -o small.plan"), std::string::npos) << message;
  }
  // To be looked at it is good enough.
  const Tensor foreign = repacked(file, [&](std::string& manifest, auto&) {
    Json json = Json::parse(manifest);
    json["info"]["version"] = "99.0";
    manifest = json.dump();
  });
  const PlanFile seen = read_plan(foreign.raw(), nullptr, {.foreign = true});
  EXPECT_NE(seen.refusal.find("99.0"), std::string::npos);
  EXPECT_EQ(seen.info.model_name, "small");
}

TEST_F(HostilePlan, AnotherFormatIsRefusedWithTheCommand) {
  Tensor file = small("reference");
  file.raw_mutable()[8] = std::byte{kPlanFormat + 1};
  seal_container({file.raw_mutable(), size_t(file.bytes())});
  const auto [kind, message] = refusal(file.raw());
  EXPECT_EQ(kind, ErrorKind::unsupported);
  EXPECT_NE(message.find("build it again: temper build small.onnx -o small.plan"), std::string::npos) << message;
}

TEST_F(HostilePlan, TextThatIsNoManifest) {
  const Tensor file = small("reference");
  const std::vector<std::pair<const char*, std::function<std::string(std::string)>>> texts{
      {"empty", [](std::string) { return ""; }},
      {"not JSON", [](std::string) { return "{\"info\": "; }},
      {"a list", [](std::string) { return "[]"; }},
      {"deep nesting", [](std::string) { return std::string(1000000, '['); }},
      {"deep nesting in a member",
       [](std::string text) {
         return "{\"info\":" + std::string(100000, '[') + std::string(100000, ']') + text.substr(text.find(','));
       }},
      {"a key twice", [](std::string text) { return "{\"threads\":2," + text.substr(1); }},
      {"a key that does not belong there", [](std::string text) { return "{\"more\":2," + text.substr(1); }},
      {"a missing key",
       [](std::string text) {
         Json json = Json::parse(text);
         json.erase("threads");
         return json.dump();
       }},
      {"a missing key of a plan",
       [](std::string text) {
         Json json = Json::parse(text);
         json["plans"][0].erase("shared_bytes");
         return json.dump();
       }},
      {"a key too many in a step",
       [](std::string text) {
         Json json = Json::parse(text);
         json["plans"][0]["segments"][0]["steps"][0]["x"] = 1;
         return json.dump();
       }},
      {"a step twice as output",
       [](std::string text) {
         Json json = Json::parse(text);
         auto& o = json["plans"][0]["segments"][0]["steps"][0]["outputs"];
         o.push_back(o[0]);
         return json.dump();
       }},
      {"an input too few",
       [](std::string text) {
         Json json = Json::parse(text);
         json["plans"][0]["segments"][0]["steps"][0]["inputs"].erase(1);
         return json.dump();
       }},
      {"the plan twice",
       [](std::string text) {
         Json json = Json::parse(text);
         json["plans"].push_back(json["plans"][0]);
         return json.dump();
       }},
      {"another number of inputs",
       [](std::string text) {
         Json json = Json::parse(text);
         json["inputs"] = Json::array();
         return json.dump();
       }},
      {"a range for an input that does not exist",
       [](std::string text) {
         Json json = Json::parse(text);
         json["info"]["shapes"]["z"] = {{1}, {1}, {1}};
         return json.dump();
       }},
      {"a range of another rank",
       [](std::string text) {
         Json json = Json::parse(text);
         json["info"]["shapes"]["x"] = {{1}, {1}, {1}};
         return json.dump();
       }},
      {"a range that excludes the plan",
       [](std::string text) {
         Json json = Json::parse(text);
         json["info"]["shapes"]["x"] = {{3, 3, 8, 8}, {3, 3, 8, 8}, {4, 3, 8, 8}};
         return json.dump();
       }},
      {"a number too large for a double",
       [](std::string text) { return text.replace(text.find("\"ms\":") + 5, 1, "1e999,\"e\":"); }},
      {"bytes that are no UTF-8", [](std::string text) { return text.replace(text.find("small.onnx"), 1, "\xff"); }},
  };
  for (const auto& [what, change] : texts) {
    const Tensor changed = repacked(file, [edit = change](std::string& manifest, auto&) { manifest = edit(manifest); });
    EXPECT_EQ(refusal(changed.raw()).first, ErrorKind::bad_file) << what;
  }
}

TEST_F(HostilePlan, SectionsThatAreUnknownMissingOrTooLong) {
  const Tensor file = small("reference");
  static const std::vector<std::byte> extra(300, std::byte{7});
  auto with = [&](const std::function<void(std::vector<SectionToWrite>&)>& change) {
    return repacked(file, [&](std::string&, auto& sections) { change(sections); });
  };
  auto at = [](std::vector<SectionToWrite>& sections, std::string_view name) {
    return std::find_if(sections.begin(), sections.end(), [&](const SectionToWrite& s) { return s.name == name; });
  };
  EXPECT_EQ(refusal(with([](auto& s) { s.push_back({"kernels", true, {extra}}); }).raw()).first,
            ErrorKind::unsupported);
  EXPECT_EQ(read_plan(with([](auto& s) { s.push_back({"remarks", false, {extra}}); }).raw(), nullptr).plans.size(), 1u)
      << "what is not required may be skipped";
  EXPECT_EQ(refusal(with([](auto& s) { s.push_back(s[0]); }).raw()).first, ErrorKind::bad_file);
  EXPECT_EQ(refusal(with([&](auto& s) { std::swap(at(s, "graph")->name, at(s, "constants")->name); }).raw()).first,
            ErrorKind::bad_file);
  EXPECT_EQ(refusal(with([&](auto& s) { s.erase(at(s, "graph")); }).raw()).first, ErrorKind::bad_file);
  EXPECT_EQ(refusal(with([&](auto& s) { s.erase(at(s, "constants")); }).raw()).first, ErrorKind::bad_file);
  EXPECT_EQ(refusal(with([&](auto& s) { at(s, "constants")->parts.push_back(extra); }).raw()).first,
            ErrorKind::bad_file);
  EXPECT_EQ(refusal(with([&](auto& s) { at(s, "constants")->parts[0] = at(s, "constants")->parts[0].first(64); }).raw())
                .first,
            ErrorKind::bad_file);
}

TEST_F(HostilePlan, PaddingThatIsNotZero) {
  Tensor file = small("reference");
  const Container container = read_container(file.raw());
  // Between the table and the first section, and between two tensors of a section.
  const int64_t before_sections = container.sections[0].offset - 1;
  const Section& constants = *container.find("constants");
  const Json tensors = Json::parse(std::string(container.manifest))["tensors"];
  const int64_t between_tensors = constants.offset + tensors[1][2].get<int64_t>() - 1;
  for (int64_t at : {before_sections, between_tensors}) {
    ASSERT_EQ(file.raw()[size_t(at)], std::byte{0});
    file.raw_mutable()[at] = std::byte{1};
    seal_container({file.raw_mutable(), size_t(file.bytes())});
    const auto [kind, message] = refusal(file.raw());
    EXPECT_EQ(kind, ErrorKind::bad_file);
    EXPECT_NE(message.find("padding"), std::string::npos) << message;
    file.raw_mutable()[at] = std::byte{0};
  }
}

TEST_F(HostilePlan, GraphsThatAreNotTheModels) {
  auto engine = std::make_shared<Engine>(info_of("reference"), small_graph("n"), 2);
  add_plan(engine, {{2, 3, 8, 8}});
  const Tensor file = file_bytes(*engine);
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"input %x: f32[n,3,8,8]", "input %x: f32[k,3,8,8]"},
                                                        {"#0", "#9"},
                                                        {"#0", "#3"},
                                                        {"output \"y\"", "output \"z\""},
                                                        {"= pool(", "= pull("}}) {
    std::string text;
    const Tensor changed = repacked(file, [&, from = from, to = to](std::string&, auto& sections) {
      for (SectionToWrite& section : sections)
        if (section.name == "graph") {
          text.assign(reinterpret_cast<const char*>(section.parts[0].data()), section.parts[0].size());
          ASSERT_NE(text.find(from), std::string::npos);
          text.replace(text.find(from), from.size(), to);
          section.parts[0] = std::as_bytes(std::span(text));
        }
    });
    EXPECT_EQ(refusal(changed.raw()).first, ErrorKind::bad_file) << to;
  }
}

}  // namespace
}  // namespace temper
