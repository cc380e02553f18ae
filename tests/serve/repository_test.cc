// SPDX-License-Identifier: Apache-2.0
// Model repositories: what their configurations say, versions that are whole or not there, names that are refused.
#include "serve/repository.h"

#include <sched.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "../cli/program.h"
#include "../plan/helpers.h"
#include "base/file.h"
#include "optimize/build_engine.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

std::string saved(const std::string& folder, const std::string& name, Graph graph,
                  std::map<std::string, ShapeRange> shapes = {}, bool pictures = false, int threads = 1) {
  BuildOptions options;
  options.measure = false;
  options.threads = threads;
  options.shapes = std::move(shapes);
  if (pictures) options.input_pictures = {""};
  const std::string path = folder + "/" + name;
  write_plan_file(path, plan_file_of(*build_engine(std::move(graph), info_of("cpu"), options)), true);
  return path;
}

const std::map<std::string, ShapeRange> kBatches = {{"x", {{1, 3, 8, 8}, {4, 3, 8, 8}, {4, 3, 8, 8}}}};

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(Repository, NamesOfModelsAreThoseOfFoldersAndAddresses) {
  for (const char* name : {"digits", "a", "ResNet-50_v1.5", "7"}) check_model_name(name);
  for (const char* name : {"", ".", "..", ".hidden", "a/b", "a b", "a\n", "ä", "a:b"})
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { check_model_name(name); }), "is no name of a model") << name;
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [] { check_model_name(std::string(201, 'a')); }), "is no name of a model");
  EXPECT_EQ(model_name_of("models/digits.plan"), "digits");
  EXPECT_EQ(model_name_of("repository/digits/3/model.temper"), "digits");
}

TEST(Repository, AVersionIsALinkToThePlanWithAConfigurationBesideIt) {
  const std::string folder = test_folder_without_slash();
  const std::string plan = saved(folder, "m.plan", small_graph("n"), kBatches);
  ServedModel model{"m", {plan}, 0, 3, 250, "", false};
  EXPECT_EQ(add_to_repository(folder + "/r", model, false), folder + "/r/m/1");
  EXPECT_EQ(read_file(folder + "/r/m/1/model.temper"), read_file(plan));
  struct stat there, here;
  ASSERT_EQ(stat((folder + "/r/m/1/model.temper").c_str(), &there) + stat(plan.c_str(), &here), 0);
  EXPECT_EQ(there.st_ino, here.st_ino);
  const std::string config = read_file(folder + "/r/m/config.pbtxt");
  EXPECT_CONTAINS(config, "backend: \"temper\"\n");
  EXPECT_CONTAINS(config, "instance_group [ { kind: KIND_MODEL count: 3 } ]\n");
  EXPECT_CONTAINS(config, "dynamic_batching { max_queue_delay_microseconds: 250 }\n");
  // The next version leaves the configuration as it is, and takes its number after the largest one.
  std::ofstream(folder + "/r/m/config.pbtxt") << "mine\n";
  fs::create_directory(folder + "/r/m/7");
  fs::create_directory(folder + "/r/m/notes");
  model.instances = 0, model.max_delay_us = -1;
  EXPECT_EQ(add_to_repository(folder + "/r", model, false), folder + "/r/m/8");
  EXPECT_EQ(read_file(folder + "/r/m/config.pbtxt"), "mine\n");
  EXPECT_EQ(names_in(folder + "/r/m"), (std::vector<std::string>{"1", "7", "8", "config.pbtxt", "notes"}));
  EXPECT_EQ(names_in(folder + "/r"), std::vector<std::string>{"m"}) << "nothing is left over";
}

TEST(Repository, WhatCannotBeAddedLeavesTheRepositoryAsItWas) {
  const std::string folder = test_folder_without_slash();
  const std::string plan = saved(folder, "m.plan", small_graph("n"), kBatches);
  ServedModel model{"m", {plan}, 2, 0, -1, "", false};
  add_to_repository(folder + "/r", model, false);
  const auto before = names_in(folder + "/r/m");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { add_to_repository(folder + "/r", model, false); }),
                  "versions are never replaced");
  model.version = -1;
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { add_to_repository(folder + "/r", model, false); }),
                  "a version is a number from 1 on");
  model.version = 0;
  std::ofstream(folder + "/no.plan") << "no plan";
  ServedModel bad = model;
  bad.plans = {folder + "/no.plan"};
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { add_to_repository(folder + "/r", bad, false); }), "no.plan");
  bad.name = "other";
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { add_to_repository(folder + "/r", bad, false); }), "no.plan");
  bad.plans.clear();
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { add_to_repository(folder + "/r", bad, false); }),
                  "a model needs a plan");
  bad = model;
  bad.name = "other";
  bad.labels = folder + "/missing.txt";
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { add_to_repository(folder + "/r", bad, false); }), "missing.txt");
  bad = model;
  fs::create_directory(folder + "/same");
  fs::copy_file(plan, folder + "/same/m.plan");
  bad.plans.push_back(folder + "/same/m.plan");
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { add_to_repository(folder + "/r", bad, false); }),
                  "two plans are called 'm'");
  EXPECT_EQ(names_in(folder + "/r/m"), before);
  EXPECT_EQ(names_in(folder + "/r"), std::vector<std::string>{"m"});
}

TEST(Repository, WhatAConfigurationSaysIsNotSaidAgainOfAKnownModel) {
  const std::string folder = test_folder_without_slash();
  const std::string plan = saved(folder, "m.plan", small_graph("n"), kBatches, true);
  std::ofstream(folder + "/names.txt") << "cat\n";
  add_to_repository(folder + "/r", {"m", {plan}, 0, 0, -1, "", false}, false);
  const auto before = names_in(folder + "/r/m");
  const auto refused = [&](const ServedModel& model, std::string_view option) {
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { add_to_repository(folder + "/r", model, false); }),
                    concat("'m' is there and its config.pbtxt stays; leave ", option, " out"));
  };
  refused({"m", {plan}, 0, 2, -1, "", false}, "--instances");
  refused({"m", {plan}, 0, 0, 0, "", false}, "--max-delay");
  refused({"m", {plan}, 0, 0, -1, folder + "/names.txt", false}, "--labels");
  refused({"m", {plan}, 0, 0, -1, "", true}, "--encoded-pictures");
  EXPECT_EQ(names_in(folder + "/r/m"), before);
  // Without a configuration there is none that stays.
  fs::remove(folder + "/r/m/config.pbtxt");
  add_to_repository(folder + "/r", {"m", {plan}, 0, 2, -1, "", false}, false);
  EXPECT_CONTAINS(read_file(folder + "/r/m/config.pbtxt"), "count: 2 }");
}

TEST(Repository, SeveralPlansKeepTheirNames) {
  const std::string folder = test_folder_without_slash();
  const std::string a = saved(folder, "a.plan", tiny_graph()), b = saved(folder, "b.plan", tiny_graph());
  add_to_repository(folder + "/r", {"m", {a, b}, 0, 1, -1, "", false}, false);
  EXPECT_EQ(names_in(folder + "/r/m/1"), (std::vector<std::string>{"a.temper", "b.temper"}));
}

TEST(Repository, InstancesFitTheCoresOfThisProcess) {
  const std::string folder = test_folder_without_slash();
  const std::string plan = saved(folder, "m.plan", tiny_graph(), {}, false, 1);
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &one);
  const auto count = [&] { return config_of({"m", {plan}, 0, 0, -1, "", false}, false); };
  EXPECT_CONTAINS(count(), concat("count: ", CPU_COUNT(&all), " }"));
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const std::string config = count();
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_CONTAINS(config, "count: 1 }");
}

TEST(Repository, LabelsNameClassesOfTheOnlyOutputOfScores) {
  const std::string folder = test_folder_without_slash();
  std::ofstream(folder + "/names.txt") << "cat\ndog\n";
  const std::string plan = saved(folder, "m.plan", small_graph("n"), kBatches);
  add_to_repository(folder + "/r", {"m", {plan}, 0, 1, -1, folder + "/names.txt", false}, false);
  EXPECT_EQ(read_file(folder + "/r/m/labels.txt"), "cat\ndog\n");
  const std::string config = read_file(folder + "/r/m/config.pbtxt");
  EXPECT_CONTAINS(config, "output [ { name: \"y\" data_type: TYPE_FP32 dims: [ ");
  EXPECT_CONTAINS(config, " label_filename: \"labels.txt\" } ]\n");
  const std::string numbers = saved(folder, "i.plan",
                                    parse_graph("graph \"g\"\n"
                                                "input %x: f32[2,4]\n"
                                                "%y: i64[2,1] = arg_reduce(%x) axis=1\n"
                                                "output \"y\" = %y\n"));
  EXPECT_CONTAINS(
      error_of(ErrorKind::usage, [&] { config_of({"m", {numbers}, 0, 1, -1, folder + "/names.txt", false}, false); }),
      "holds no scores but i64");
}

TEST(Repository, EncodedPicturesAreStringsAndOtherInputsAreListedBesideThem) {
  const std::string folder = test_folder_without_slash();
  const std::string plan = saved(folder, "m.plan", small_graph("n"), kBatches, true);
  EXPECT_CONTAINS(config_of({"m", {plan}, 0, 1, -1, "", true}, false),
                  "input [ { name: \"x\" data_type: TYPE_STRING dims: [ 1 ] } ]\n");
  const std::string floats = saved(folder, "f.plan", small_graph("n"), kBatches);
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { config_of({"m", {floats}, 0, 1, -1, "", true}, false); }),
                  "--input-pictures");
}

// Names come out of files.
TEST(Repository, ANameOfATensorIsOneStringInTheConfiguration) {
  const std::string folder = test_folder_without_slash();
  std::ofstream(folder + "/names.txt") << "a\n";
  const std::string plan = saved(folder, "m.plan",
                                 parse_graph("graph \"g\"\n"
                                             "input %x: f32[2,4]\n"
                                             "%y: f32[2,4] = softmax(%x) axis=1\n"
                                             "output \"a\\\"b\\\\c\" = %y\n"));
  EXPECT_CONTAINS(config_of({"m", {plan}, 0, 1, -1, folder + "/names.txt", false}, false),
                  "name: \"a\\\"b\\\\c\" data_type");
}

}  // namespace
}  // namespace temper
