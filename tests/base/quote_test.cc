// SPDX-License-Identifier: Apache-2.0
#include "base/quote.h"

#include <gtest/gtest.h>

#include "base/strict_json.h"

namespace temper {
namespace {

// Everything that a terminal takes as a command, or a reader as something else than it is.
const std::string kHostile =
    "a\x1b[2Jb\x07"
    "c\rd\ne\tf\x7f"
    "g\xc2\x9b"
    "31mh\xe2\x80\xaei\xe2\x81\xa6j\xe2\x80\x8fk\xff\xfel\x9bm\xed\xa0\x80n\xc3";

TEST(Quote, PrintableTextHoldsNothingThatCommandsATerminal) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(printable(kHostile),
            "a [2Jb c d e f g 31mh" + r + "i" + r + "j" + r + "k" + r + r + "l" + r + "m" + r + r + r + "n" + r);
  EXPECT_EQ(printable_lines("a\r\nb"), "a \nb");
  EXPECT_EQ(printable("naïve 模型 🙂 ‑ é"), "naïve 模型 🙂 ‑ é");
}

TEST(Quote, BytesThatAreNoUtf8AreReplacedAndAllElseStays) {
  const std::string r = "\ufffd";
  EXPECT_EQ(as_utf8("a\x1b\t模🙂\xff\xc3(\xe2\x80"), "a\x1b\t模🙂" + r + r + "(" + r + r);
}

TEST(Quote, LongWordsLoseTheirMiddleAndSayHowMuch) {
  EXPECT_EQ(with_short_words("short words stay", 20), "short words stay");
  const std::string cut = with_short_words("the shape " + std::string(60000, '1') + " is\nlong", 100);
  EXPECT_EQ(cut, "the shape " + std::string(50, '1') + "…(59925 bytes)…" + std::string(25, '1') + " is\nlong");
  std::string word;
  for (int i = 0; i < 1000; ++i) word += "é";
  for (size_t most : {50u, 51u, 52u, 53u})
    EXPECT_EQ(printable(with_short_words(word, most)), with_short_words(word, most));  // no half characters
}

TEST(Quote, JsonEscapesWhatATerminalWouldObeyAndReadsBackTheSame) {
  const std::string valid = "a\x1b\x7f\xc2\x9b\xe2\x80\xae\xe2\x80\xa8\"\\\n模";
  const std::string text = strict::dump(strict::Json{{"name", valid}});
  EXPECT_EQ(text, R"({"name":"a\u001b\u007f\u009b\u202e\u2028\"\\\n模"})");
  EXPECT_EQ(strict::parse(text, "it").at("name"), valid);
  EXPECT_EQ(printable(strict::dump(strict::Json(kHostile))), strict::dump(strict::Json(kHostile)));
  EXPECT_NO_THROW(strict::parse(strict::dump(nlohmann::ordered_json(kHostile), 2), "it"));
}

}  // namespace
}  // namespace temper
