// SPDX-License-Identifier: Apache-2.0
#include "onnx/external.h"

#include <fcntl.h>
#include <stdio.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "../data/helpers.h"

namespace temper {
namespace {

namespace fs = std::filesystem;

std::string text_of(const OpenFile& file) {
  std::string text(file.size(), '\0');
  file.read(0, std::as_writable_bytes(std::span(text)));
  return text;
}

TEST(OpenExternal, LinksThatStayInTheFolderAreFollowed) {
  const std::string folder = test_folder();
  write_text(folder + "model/sub/w", "inside");
  fs::create_symlink("sub/../sub/w", folder + "model/relative");
  fs::create_symlink(folder + "model/sub/w", folder + "model/absolute");
  fs::create_symlink("sub", folder + "model/folder");
  fs::create_symlink("model", folder + "other");
  for (const char* model : {"model", "other"})
    for (const char* location : {"sub/w", "./sub//w", "relative", "absolute", "folder/w"})
      EXPECT_EQ(text_of(open_external(folder + model, location)), "inside") << model << " " << location;
}

TEST(OpenExternal, LinksThatLeaveTheFolderAreRefused) {
  const std::string folder = test_folder();
  write_text(folder + "secret", "outside");
  write_text(folder + "model2/w", "outside");  // its name begins as the model's folder's
  write_text(folder + "model/sub/w", "inside");
  const std::pair<const char*, std::string> links[] = {{"up", ".."},
                                                       {"relative", "../secret"},
                                                       {"absolute", folder + "secret"},
                                                       {"beside", folder + "model2/w"},
                                                       {"root", "/"},
                                                       {"through", "sub/../../model/sub/w"}};
  for (const auto& [name, to] : links) fs::create_symlink(to, folder + "model/" + name);
  for (const char* location : {"up/secret", "relative", "absolute", "beside", "root/etc/passwd", "through"})
    EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { open_external(folder + "model", location); }),
                    "a link leads out of the model's folder")
        << location;
  fs::create_symlink("circle", folder + "model/circle");
  error_of(ErrorKind::bad_file, [&] { open_external(folder + "model", "circle"); });
}

// Somebody who may write in the folder exchanges what was looked at for a link that leads out: it is never opened.
TEST(OpenExternal, NobodyWinsARaceOutOfTheFolder) {
  const std::string folder = test_folder();
  write_text(folder + "outside/w", "outside");
  write_text(folder + "model/sub/w", "inside");
  write_text(folder + "model/file", "inside");
  fs::create_symlink("../outside", folder + "model/link");
  fs::create_symlink("../outside/w", folder + "model/file_link");
  std::atomic<bool> done = false;
  std::thread attacker([&] {
    while (!done)
      for (const auto& [a, b] : {std::pair{"model/sub", "model/link"}, std::pair{"model/file", "model/file_link"}})
        renameat2(AT_FDCWD, (folder + a).c_str(), AT_FDCWD, (folder + b).c_str(), RENAME_EXCHANGE);
  });
  int opened = 0;
  for (int i = 0; i < 4000; ++i)
    for (const char* location : {"sub/w", "file"}) try {
        EXPECT_EQ(text_of(open_external(folder + "model", location)), "inside");
        ++opened;
      } catch (const Error&) {  // it was a link just then
      }
  done = true;
  attacker.join();
  EXPECT_LE(opened, 8000);
}

TEST(OpenExternal, AModelsFilesAreThoseThatItsWeightsLieIn) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx
from onnx import helper as h, TensorProto as T, numpy_helper
a, b = (numpy_helper.from_array(np.ones((4, 4), 'f4'), n) for n in 'ab')
inner = h.make_graph([h.make_node('Constant', [], ['c'], value=b)], 'inner', [], [h.make_tensor_value_info('c', T.FLOAT, [4, 4])])
cond = h.make_node('If', ['t'], ['i'], then_branch=inner, else_branch=inner)
g = h.make_graph([h.make_node('MatMul', ['x', 'a'], ['y']), cond], 'g', [h.make_tensor_value_info('x', T.FLOAT, [4, 4]), h.make_tensor_value_info('t', T.BOOL, [])],
                 [h.make_tensor_value_info('y', T.FLOAT, [4, 4])], [a])
m = h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8)
def outside(t, name):
    t.ClearField('raw_data'); t.data_location = T.EXTERNAL; t.external_data.add(key='location', value=name)
outside(m.graph.initializer[0], 'a.bin'); outside(m.graph.node[1].attribute[0].g.node[0].attribute[0].t, 'sub/b.bin')
open('m.onnx', 'wb').write(m.SerializeToString())
)");
  EXPECT_EQ(model_files(folder + "m.onnx"),
            (std::vector<std::string>{folder + "m.onnx", folder + "a.bin", folder + "sub/b.bin"}));
  EXPECT_EQ(model_files(folder + "none.onnx"), std::vector<std::string>{folder + "none.onnx"});
}

}  // namespace
}  // namespace temper
