// SPDX-License-Identifier: Apache-2.0
// The schema that a file of JSON names, as every strict reader asks for it.
#include "base/json_struct.h"

#include <gtest/gtest.h>

namespace temper {
namespace {

Error error_of(const char* text) {
  const strict::Json json = strict::parse(text, "the notes");
  const JsonInput root(json, "notes", "temper.notes/3");
  JsonReader reader(root);
  try {
    reader.expect_schema("temper write NOTES");
  } catch (const Error& error) { return error; }
  reader.finish();  // it counts as known
  return Error(ErrorKind::check_failed, "nothing was thrown");
}

TEST(Schema, TheOneThatIsReadPasses) {
  EXPECT_EQ(error_of(R"({"schema": "temper.notes/3"})").kind(), ErrorKind::check_failed);
}

TEST(Schema, AnotherVersionIsUnsupportedAndAnotherKindABadFile) {
  for (const char* version : {"2", "4", "30", "", "x"}) {
    const Error error = error_of((std::string(R"({"schema": "temper.notes/)") + version + "\"}").c_str());
    EXPECT_EQ(error.kind(), ErrorKind::unsupported);
    EXPECT_EQ(std::string(error.what()),
              std::string("the schema is 'temper.notes/") + version +
                  "', this version of Temper reads 'temper.notes/3': read the file with the version that wrote it, or "
                  "write it again with this one: temper write NOTES");
  }
  for (const char* other : {"temper.note/3", "temper.notes", "notes/3", ""}) {
    const Error error = error_of((std::string(R"({"schema": ")") + other + "\"}").c_str());
    EXPECT_EQ(error.kind(), ErrorKind::bad_file);
    EXPECT_EQ(std::string(error.what()),
              std::string("the schema is '") + other +
                  "', this version of Temper reads 'temper.notes/3': it is a file of another kind; one of this kind is "
                  "written by temper write NOTES");
  }
}

TEST(Schema, ALongOneIsCutAndOneThatIsNoTextIsNamed) {
  const std::string text = R"({"schema": ")" + std::string(100'000, 'a') + "\"}";
  EXPECT_LT(std::string(error_of(text.c_str()).what()).size(), 400u);
  EXPECT_EQ(std::string(error_of(R"({"schema": 3})").what()), "notes.schema: a string expected, found number");
  EXPECT_EQ(std::string(error_of("{}").what()), "notes.schema: this field is missing");
}

}  // namespace
}  // namespace temper
