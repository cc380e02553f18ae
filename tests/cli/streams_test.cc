// SPDX-License-Identifier: Apache-2.0
// What goes to standard output and to standard error, when both end in one log and when one is a terminal.
#include <gtest/gtest.h>

#include "../paths.h"
#include "program.h"

namespace temper {
namespace {

TEST(Streams, TablesAndMessagesDoNotTearEachOtherInOneLog) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  ASSERT_EQ(temper(folder, "calibrate m.onnx --placeholder-data -o r.json >log 2>&1; true").code, 0);
  const std::string log = read_file(folder + "log");
  const auto table = log.find("tensor "), message = log.find("info: ranges of ");
  ASSERT_NE(table, std::string::npos) << log;
  ASSERT_NE(message, std::string::npos) << log;
  EXPECT_LT(table, message) << log;  // in the order in which they were written
  EXPECT_EQ(log[message - 1], '\n') << log;
}

TEST(Streams, NoColorLeavesColoursOut) {
  const std::string folder = test_folder();
  ASSERT_EQ(temper(folder, "zoo digits_cnn -o m.onnx").code, 0);
  run_python(folder, R"(
import os, pty, subprocess
def seen(**more):  # what a terminal gets
    ours, theirs = pty.openpty()
    env = dict({k: v for k, v in os.environ.items() if k != 'NO_COLOR'}, TERM='xterm', XDG_CACHE_HOME=os.getcwd() + '/cache', **more)
    process = subprocess.Popen([')" +
                         paths::program() +
                         R"(', 'run', 'm.onnx', '--quick'], stdout=subprocess.DEVNULL, stderr=theirs, env=env)
    os.close(theirs)
    text = b''
    while True:
        try: part = os.read(ours, 65536)
        except OSError: break
        if not part: break
        text += part
    assert process.wait() == 0, text
    assert b'warning' in text, text
    return b'\x1b[' in text.replace(b'\x1b[K', b'')
assert seen(), 'no colours on a terminal'
assert not seen(NO_COLOR='1'), 'colours in spite of NO_COLOR'
assert seen(NO_COLOR=''), 'an empty NO_COLOR is none'
)");
}

TEST(Streams, AmountsOfMemoryAreReadableAndATensorAboveTheLimitIsNoDamagedFile) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import onnx
from onnx import helper as h, TensorProto as T
g = h.make_graph([h.make_node('Relu', ['x'], ['y'])], 'g', [h.make_tensor_value_info('x', T.FLOAT, ['a', 'b'])], [h.make_tensor_value_info('y', T.FLOAT, ['a', 'b'])])
onnx.save(h.make_model(g, opset_imports=[h.make_opsetid('', 17)], ir_version=8), 'm.onnx')
)");
  const Outcome outcome = temper(folder, "build m.onnx -o m.plan --shapes x=1048576x1048576");
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_CONTAINS(outcome.err, "4.00 TiB; the limit is 1.00 TiB");
}

}  // namespace
}  // namespace temper
