// SPDX-License-Identifier: Apache-2.0
#include "data/resize.h"

#include "../picture/pictures.h"
#include "data/place.h"

namespace temper {
namespace {

TEST(Resize, ResizingEqualsPilsInBothFiltersAndAllDirections) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
im.save('in.png')
for w, h in [(50, 40), (131, 40), (50, 97), (260, 200), (131, 97), (1, 1), (300, 20), (17, 333)]:
    np.save('bilinear_%dx%d.npy' % (w, h), np.asarray(im.resize((w, h), Image.BILINEAR)))
    np.save('bicubic_%dx%d.npy' % (w, h), np.asarray(im.resize((w, h), Image.BICUBIC)))
np.save('grey.npy', np.asarray(im.convert('L'))[..., None])
np.save('grey_small.npy', np.asarray(im.convert('L').resize((30, 20), Image.BILINEAR))[..., None])
)");
  const Image image = read_image(folder + "in.png");
  for (auto [w, h] : {std::pair{50, 40}, {131, 40}, {50, 97}, {260, 200}, {131, 97}, {1, 1}, {300, 20}, {17, 333}}) {
    EXPECT_EQ(worst_difference(resize(image, w, h), concat(folder, "bilinear_", w, "x", h, ".npy")), 0)
        << w << "x" << h;
    EXPECT_EQ(
        worst_difference(resize(image, w, h, ResizeFilter::bicubic), concat(folder, "bicubic_", w, "x", h, ".npy")), 0)
        << w << "x" << h;
  }
  EXPECT_EQ(worst_difference(to_grey(image), folder + "grey.npy"), 0);
  EXPECT_EQ(worst_difference(resize(to_grey(image), 30, 20), folder + "grey_small.npy"), 0);
}

TEST(Resize, ShortSideAndCropRoundAsTorchvisionDoes) {
  EXPECT_EQ(size_of_short_side(131, 97, 64).width, 64 * 131 / 97);
  EXPECT_EQ(size_of_short_side(131, 97, 64).height, 64);
  EXPECT_EQ(size_of_short_side(97, 131, 64).height, 64 * 131 / 97);
  Image line = make_image(9, 1, 1);
  for (int i = 0; i < 9; ++i) line.pixels[size_t(i)] = uint8_t(i);
  EXPECT_EQ(centre_crop(line, 3, 1).pixels[0], 3);  // (9-3)/2
  EXPECT_EQ(centre_crop(line, 4, 1).pixels[0], 2);  // 2.5 rounds to even: 2
  EXPECT_EQ(centre_crop(line, 2, 1).pixels[0], 4);  // 3.5 rounds to even: 4
  EXPECT_EQ(centre_crop(line, 8, 1).pixels[0], 0);  // 0.5 rounds to even: 0
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { centre_crop(line, 10, 1); }), "9x1");
}

}  // namespace
}  // namespace temper
