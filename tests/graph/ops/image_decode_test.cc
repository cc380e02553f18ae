// SPDX-License-Identifier: Apache-2.0
#include "graph/ops/image_decode.h"

#include "../../picture/pictures.h"
#include "backends/backend.h"
#include "backends/cpu/eager.h"
#include "graph/graph.h"
#include "passes/pass.h"

namespace temper {
namespace {

using ops::PixelFormat;

constexpr const char* kKinds[] = {"jpg", "png", "webp", "bmp", "tiff", "ppm", "pgm"};

// A small picture in a file of every kind, and as NumPy has the two of its three formats that differ in more than
// order.
std::string small_pictures() {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
im = im.resize((20, 15))
for kind in ('jpg', 'png', 'webp', 'bmp', 'tiff', 'ppm', 'pgm'):
    (im.convert('L') if kind == 'pgm' else im).save('x.' + kind, lossless=True)
np.save('rgb.npy', np.asarray(im)); np.save('grey.npy', np.asarray(im.convert('L'))[..., None])
)");
  return folder;
}

Tensor tensor_of(std::string_view bytes) {
  Tensor x(DType::u8, {int64_t(bytes.size())});
  std::copy(bytes.begin(), bytes.end(), reinterpret_cast<char*>(x.raw_mutable()));
  return x;
}

Tensor file_of(const std::string& folder, std::string_view kind) {
  return tensor_of(read_file(concat(folder, "x.", kind)));
}

Tensor decoded(PixelFormat format, const Tensor& file) { return run_node(ops::ImageDecode{format}, {file}, "node")[0]; }

TEST(ImageDecode, GivesThePixelsInTheFormatThatIsAskedFor) {
  const std::string folder = small_pictures();
  const Tensor rgb = read_npy(folder + "rgb.npy"), png = file_of(folder, "png");
  EXPECT_TRUE(decoded(PixelFormat::rgb, png).same_bits(rgb));
  EXPECT_TRUE(decoded(PixelFormat::grey, png).same_bits(read_npy(folder + "grey.npy")));
  const Tensor bgr = decoded(PixelFormat::bgr, png);
  ASSERT_EQ(bgr.dims(), rgb.dims());
  for (int64_t i = 0; i < rgb.count(); ++i)
    ASSERT_EQ(bgr.data<uint8_t>()[i], rgb.data<uint8_t>()[i / 3 * 3 + 2 - i % 3]) << i;
  EXPECT_TRUE(decoded(PixelFormat::grey, file_of(folder, "pgm")).same_bits(read_npy(folder + "grey.npy")));
}

TEST(ImageDecode, EveryKindIsAsLargeAsItsHeaderSays) {
  const std::string folder = small_pictures();
  for (std::string_view kind : kKinds) {
    const Tensor file = file_of(folder, kind);
    const Image size = picture_size(file.raw());
    EXPECT_TRUE(size.pixels.empty()) << kind;
    EXPECT_EQ(decoded(PixelFormat::rgb, file).dims(), (Dims{size.height, size.width, 3})) << kind;
  }
}

TEST(ImageDecode, ItsSizeIsDataUntilTheFileIsKnown) {
  Graph graph;
  const ValueId x = graph.add_input("x", TensorType::parse("u8[n]"));
  const ValueId y = graph.add_single(ops::ImageDecode{PixelFormat::grey}, {x}, "decoded");
  EXPECT_EQ(concat(graph.type(y)), "u8[$decoded.0.0,$decoded.0.1,1]");
  graph.add_output("y", y);
  EXPECT_EQ(print(parse_graph(print(graph))), print(graph));
  const auto refused = [](const char* type) {
    return error_of(ErrorKind::bad_file, [&] {
      Graph wrong;
      wrong.add_single(ops::ImageDecode{}, {wrong.add_input("x", TensorType::parse(type))}, "decoded");
    });
  };
  EXPECT_CONTAINS(refused("i8[n]"), "u8");
  EXPECT_CONTAINS(refused("u8[1,n]"), "rank");
}

// A constant tells the size by its header; its pixels wait for a run, as few bytes may unpack to many.
TEST(ImageDecode, AConstantFileIsNotFolded) {
  Graph graph;
  const ValueId x = graph.add_constant("x", file_of(small_pictures(), "png"));
  graph.add_output("y", graph.add_single(ops::ImageDecode{}, {x}, "decoded"));
  EXPECT_EQ(concat(graph.type(graph.outputs()[0].value)), "u8[15,20,3]");
  fold_constants(graph, {});
  EXPECT_EQ(graph.node_count(), 1);
}

TEST(ImageDecode, TheCpusKernelGivesWhatTheReferenceGives) {
  const std::string folder = small_pictures();
  for (std::string_view kind : kKinds)
    for (PixelFormat format : {PixelFormat::rgb, PixelFormat::bgr, PixelFormat::grey}) {
      const Tensor file = file_of(folder, kind), want = decoded(format, file);
      EXPECT_TRUE(prepare_eager(ops::ImageDecode{format}, "node", 1)({file})[0].same_bits(want)) << kind;
      const Problem problem{ops::ImageDecode{format}, {{file.type()}}, {{want.type()}}};
      EXPECT_EQ(plain_way(problem, open_device("cpu")).tactic->name, "cpu.image_decode");
    }
}

TEST(ImageDecode, APictureOfAnotherSizeThanWasPlannedIsRefused) {
  const Tensor file = file_of(small_pictures(), "png");
  uint8_t none = 0;
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { ops::ImageDecode{}.decode(file.raw(), {20, 15, 3}, &none); }),
                  "15,20,3");
}

TEST(ImageDecode, DamagedAndForeignBytesAreRefusedOrDecodedAndNoCrash) {
  const std::string folder = small_pictures();
  for (std::string_view kind : kKinds) {
    const std::string good = read_file(concat(folder, "x.", kind));
    damage(folder + "damaged", good, 19, [&](const std::string& path) {
      const Tensor file = tensor_of(read_file(path));
      run_node(ops::ImageDecode{PixelFormat::grey}, {file}, path);
      prepare_eager(ops::ImageDecode{}, path, 1)({file});
    });
    for (size_t cut = 0; cut + 4 < good.size(); cut += 29)
      error_of(ErrorKind::bad_file,
               [&] { prepare_eager(ops::ImageDecode{}, "node", 1)({tensor_of(good.substr(0, cut))}); });
  }
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { decoded(PixelFormat::rgb, tensor_of("")); }), "empty");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { decoded(PixelFormat::rgb, tensor_of("hello")); }), "picture");
  EXPECT_CONTAINS(
      error_of(ErrorKind::bad_file, [&] { decoded(PixelFormat::rgb, tensor_of("P6 100000 100000 255\n")); }),
      "100000x100000");
}

}  // namespace
}  // namespace temper
