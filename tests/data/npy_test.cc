// SPDX-License-Identifier: Apache-2.0
#include "data/npy.h"

#include "graph/strings.h"
#include "helpers.h"

namespace temper {
namespace {

std::string npy_text(std::string_view header, std::string_view data, char major = 1) {
  std::string text = concat(std::string_view("\x93NUMPY", 6), major, '\0');
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) text += char((header.size() >> (8 * i)) & 0xff);
  return concat(text, header, data);
}
Tensor parse(const std::string& text) { return parse_npy(std::as_bytes(std::span(text.data(), text.size()))); }
std::string refusal(ErrorKind kind, std::string_view header, std::string_view data = "") {
  return error_of(kind, [&] { parse(npy_text(header, data)); });
}

TEST(Npy, EveryDtypeThatNumpySavesIsReadInEitherByteOrder) {
  const std::string folder = test_folder();
  run_python(folder, R"(
for code in 'b1 i1 u1 i2 u2 i4 u4 i8 u8 f2 f4 f8'.split():
    a = (np.arange(6).reshape(2, 3) * 7 % 5).astype(code)
    np.save(code + '_lt.npy', a)
    np.save(code + '_gt.npy', a.astype('>' + code))
    np.save(code + '_fortran.npy', np.asfortranarray(a))
)");
  const std::pair<const char*, DType> codes[] = {{"b1", DType::boolean}, {"i1", DType::i8},  {"u1", DType::u8},
                                                 {"i2", DType::i16},     {"u2", DType::u16}, {"i4", DType::i32},
                                                 {"u4", DType::u32},     {"i8", DType::i64}, {"u8", DType::u64},
                                                 {"f2", DType::f16},     {"f4", DType::f32}, {"f8", DType::f64}};
  for (auto [code, dtype] : codes)
    for (const char* kind : {"_lt", "_gt", "_fortran"}) {
      SCOPED_TRACE(concat(std::string_view(code), std::string_view(kind)));
      const Tensor tensor = read_npy(concat(folder, std::string_view(code), std::string_view(kind), ".npy"));
      EXPECT_EQ(tensor.dtype(), dtype);
      EXPECT_EQ(tensor.dims(), (Dims{2, 3}));
      const std::vector<double> flags = {0, 1, 1, 1, 1, 0}, numbers = {0, 2, 4, 1, 3, 0};
      EXPECT_EQ(tensor.to_doubles(), dtype == DType::boolean ? flags : numbers);
    }
}

TEST(Npy, ScalarsEmptyArraysHighRanksAndAllVersionsAreRead) {
  const std::string folder = test_folder();
  run_python(folder, R"(
np.save('scalar.npy', np.float32(2.5))
np.save('empty.npy', np.zeros((0, 4), 'f4'))
np.save('deep.npy', np.asfortranarray(np.arange(120.).reshape(2, 3, 4, 5)))
for major in (1, 2, 3):
    with open('v%d.npy' % major, 'wb') as f: np.lib.format.write_array(f, np.arange(3), version=(major, 0))
)");
  EXPECT_EQ(read_npy(folder + "scalar.npy").rank(), 0);
  EXPECT_EQ(read_npy(folder + "scalar.npy").to_doubles(), std::vector<double>{2.5});
  EXPECT_EQ(read_npy(folder + "empty.npy").dims(), (Dims{0, 4}));
  const Tensor deep = read_npy(folder + "deep.npy");
  EXPECT_EQ(deep.dims(), (Dims{2, 3, 4, 5}));
  for (int i = 0; i < 120; ++i) EXPECT_EQ(deep.data<double>()[i], i);
  for (char major : {'1', '2', '3'})
    EXPECT_EQ(read_npy(concat(folder, "v", major, ".npy")).to_ints(), (std::vector<int64_t>{0, 1, 2}));
}

TEST(Npy, WhatIsWrittenIsReadBackByNumpyAndByUs) {
  const std::string folder = test_folder();
  for (int i = 0; i < kDTypeCount; ++i) {
    const Tensor tensor = Tensor::of<double>({2, 1, 2}, {0, 1, 1, 3}).converted(DType(i));
    const std::string path = concat(folder, name_of(DType(i)), ".npy");
    write_npy(path, tensor);
    const Tensor back = read_npy(path);
    if (DType(i) == DType::bf16) EXPECT_TRUE(back.same_bits(tensor.converted(DType::f32)));
    else EXPECT_TRUE(back.same_bits(tensor));
  }
  write_npy(folder + "scalar.npy", Tensor::of<int32_t>({}, {7}));
  write_npy(folder + "vector.npy", Tensor::of<int32_t>({2}, {7, 8}));
  run_python(folder, R"(
for name in 'f32 f16 bf16 f64 i8 u8 i16 u16 i32 u32 i64 u64 bool'.split():
    a = np.load(name + '.npy')
    assert a.shape == (2, 1, 2) and a.ravel().tolist() == ([0, 1, 1, 1] if name == 'bool' else [0, 1, 1, 3]), (name, a)
    assert a.dtype == {'f32': 'f4', 'f16': 'f2', 'bf16': 'f4', 'f64': 'f8', 'bool': 'b1'}.get(name, name[0] + str(int(name[1:]) // 8) if name[0] in 'iu' else ''), a.dtype
assert np.load('scalar.npy').shape == () and np.load('vector.npy').tolist() == [7, 8]
)");
}

TEST(Npy, StringsAreReadAsNumpyWritesThemAndReadBackByNumpy) {
  const std::string folder = test_folder();
  run_python(folder, R"(
words = np.array([['', 'a', 'größe'], ['\U0001f600', ' x ', 'no\0end']])
np.save('wide.npy', words); np.save('swapped.npy', words.astype('>U6')); np.save('fortran.npy', np.asfortranarray(words))
np.save('bytes.npy', np.array([b'a', b'', b'\xff\xfe'])); np.save('nothing.npy', np.zeros((0, 2), 'U3')); np.save('empty.npy', np.array(['', '']))
)");
  const std::vector<std::string> words = {"", "a", "größe", "\U0001f600", " x ", std::string("no\0end", 6)};
  for (const char* name : {"wide.npy", "swapped.npy", "fortran.npy"}) {
    const Tensor read = read_npy(folder + name);
    EXPECT_EQ(read.dims(), (Dims{2, 3}));
    EXPECT_EQ(strings_of(read), words) << name;
  }
  EXPECT_EQ(strings_of(read_npy(folder + "bytes.npy")), (std::vector<std::string>{"a", "", "\xff\xfe"}));
  EXPECT_EQ(read_npy(folder + "nothing.npy").dims(), (Dims{0, 2}));
  EXPECT_EQ(strings_of(read_npy(folder + "empty.npy")), (std::vector<std::string>{"", ""}));
  write_npy(folder + "back.npy", tensor_of_strings({2, 3}, words));
  write_npy(folder + "none.npy", Tensor(DType::string, {0}));
  run_python(folder, R"(
assert np.array_equal(np.load('back.npy'), np.load('wide.npy')), np.load('back.npy')
assert np.load('none.npy').shape == (0,) and np.load('none.npy').dtype.kind == 'U'
)");
}

TEST(Npy, AStringThatHoldsNoCharacterIsRefused) {
  for (const char* code : {"\x00\xd8\x00\x00", "\x00\x00\x11\x00"})
    refusal(ErrorKind::bad_file, "{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n", std::string(code, 4));
}

TEST(Npy, AnAlignedFileIsViewedInPlace) {
  const std::string path = test_folder() + "x.npy";
  write_npy(path, Tensor::of<float>({2}, {1, 2}));
  auto file = std::make_shared<MappedFile>(path);
  const Tensor tensor = parse_npy(file->bytes(), file);
  EXPECT_EQ(tensor.raw().data(), file->bytes().data() + file->bytes().size() - 8);
  EXPECT_EQ((file->bytes().size() - 8) % 64, 0u);
}

TEST(Npy, UnsupportedElementTypesAreNamed) {
  const auto header = [](std::string_view descr) {
    return concat("{'descr': ", descr, ", 'fortran_order': False, 'shape': (1,), }\n");
  };
  for (std::string_view descr : {"'<c8'", "'|O'", "'<f16'", "'|U3'", "'<S3'", "'<U-1'", "'<U0'", "'|S0'",
                                 "'<U999999999999'", "'<M8[ns]'", "'|f4'", "'=f4'", "'f4'", "''"})
    EXPECT_CONTAINS(refusal(ErrorKind::unsupported, header(descr)), descr);
  EXPECT_CONTAINS(refusal(ErrorKind::unsupported, header("[('a', '<f4')]")), "records");
}

TEST(Npy, HostileHeadersAreRefused) {
  const auto with_shape = [](std::string_view shape) {
    return concat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, ", }\n");
  };
  for (std::string_view shape :
       {"(-1,)", "(99999999999999999999,)", "(1", "(a,)", "(4611686018427387904, 4)", "3", "[1]", "(1,,)"})
    refusal(ErrorKind::bad_file, with_shape(shape), "abcd");
  EXPECT_CONTAINS(refusal(ErrorKind::bad_file, with_shape("(274877906944,)")),
                  "has 0");  // 1 TiB claimed, nothing there, nothing allocated
  std::string deep = "(";
  for (int i = 0; i < 65; ++i) deep += "1, ";
  EXPECT_CONTAINS(refusal(ErrorKind::bad_file, with_shape(deep + ")")), "64 dimensions");
  EXPECT_CONTAINS(refusal(ErrorKind::bad_file, with_shape("(2,)"), "1234567"), "8 bytes of data; the file has 7");
  EXPECT_CONTAINS(refusal(ErrorKind::bad_file, with_shape("(2,)"), "123456789"), "the file has 9");
  refusal(ErrorKind::bad_file, "{'descr': '<f4', 'shape': (), }", "abcd");
  refusal(ErrorKind::bad_file, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (), }", "abcd");
  refusal(ErrorKind::bad_file, "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1, }", "abcd");
  refusal(ErrorKind::bad_file, "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (), }", "abcd");
  refusal(ErrorKind::bad_file, "{'descr': '<f4', 'fortran_order': False, 'shape': (), } or exit()", "abcd");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { parse(npy_text(std::string(70000, ' '), "", 2)); }), "limit");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { parse("PK\x03\x04"); }), "magic");
  error_of(ErrorKind::unsupported, [&] { parse(npy_text(with_shape("()"), "abcd", 4)); });
  EXPECT_EQ(parse(npy_text(with_shape("()"), "abcd")).count(), 1);  // the same header unharmed
}

TEST(Npy, ADamagedFileEndsInAnErrorThatNamesIt) {
  const std::string folder = test_folder(), path = folder + "x.npy";
  write_npy(path, Tensor::of<float>({2, 2}, {1, 2, 3, 4}));
  const std::string good = read_file(path);
  const int accepted = damage(path, good, 1, [](const std::string& file) { read_npy(file); });
  EXPECT_LT(accepted, 3 * 16 + 40);  // 16 bytes of values have no redundancy; nor have blanks and some dtype letters
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_npy(folder + "none.npy"); }), "none.npy");
}

}  // namespace
}  // namespace temper
