// SPDX-License-Identifier: Apache-2.0
#include "plan/file.h"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/file.h"
#include "helpers.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / concat("temper-plan-", int64_t(getpid()))) { fs::create_directories(path_); }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const char* name) const { return (path_ / name).string(); }
  size_t entries() const { return size_t(std::distance(fs::directory_iterator(path_), fs::directory_iterator())); }

 private:
  fs::path path_;
};

TEST(PlanFile, SavedAndLoadedItComputesTheSame) {
  const Folder folder;
  const std::string path = folder / "small.plan";
  for (const std::string device : {"cpu", "reference"}) {
    auto engine = std::make_shared<Engine>(info_of(device), small_graph("2"), 2);
    add_plan(*engine, {{2, 3, 8, 8}});
    save_engine(*engine, path);
    const auto loaded = Engine::load(path);
    EXPECT_EQ(loaded->info(), engine->info());
    EXPECT_EQ(loaded->threads(), 2);
    EXPECT_EQ(loaded->graph_text(), engine->graph_text());
    EXPECT_FALSE(loaded->has_graph());
    Session session(loaded);
    const std::vector<Tensor> inputs{noise({2, 3, 8, 8}, 9)};
    expect_close(session.run(inputs), run_reference(engine->graph(), inputs));
    EXPECT_EQ(session.statistics().plans_made, 0);
  }
}

}  // namespace
}  // namespace temper
