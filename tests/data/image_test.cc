// SPDX-License-Identifier: Apache-2.0
#include "data/image.h"

#include <algorithm>
#include <cstring>

#include "data/npy.h"
#include "helpers.h"

namespace temper {
namespace {

// The largest difference of any channel from the (height, width, channels) array that NumPy saved.
int worst_difference(const Image& image, const std::string& npy) {
  const Tensor expected = read_npy(npy);
  EXPECT_EQ(expected.dims(), (Dims{image.height, image.width, image.channels}));
  if (expected.count() != int64_t(image.pixels.size())) return 999;
  int worst = 0;
  for (size_t i = 0; i < image.pixels.size(); ++i)
    worst = std::max(worst, std::abs(int(expected.data<uint8_t>()[i]) - int(image.pixels[i])));
  return worst;
}

constexpr const char* kPictures = R"(
y, x = np.mgrid[0:97, 0:131]
r = np.random.RandomState(1)
a = np.stack([x * 255 // 131, y * 255 // 97, (x * y) % 256], 2).astype('u1')
a[20:60, 30:70] = r.randint(0, 256, (40, 40, 3))
im = Image.fromarray(a)
)";

TEST(Image, DecodedPngsAreExactInEveryColourType) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
def save(name, im, expected): im.save(name + '.png'); np.save(name + '.npy', np.asarray(expected))
save('rgb', im, im)
save('grey', im.convert('L'), im.convert('L').convert('RGB'))
save('palette', im.quantize(64), im.quantize(64).convert('RGB'))
rgba = im.copy(); rgba.putalpha(77)
save('rgba', rgba, im)
save('bit', im.convert('1'), im.convert('1').convert('RGB'))
g16 = (np.arange(64 * 5).reshape(5, 64) * 199).astype('u2')
Image.fromarray(g16).save('deep.png'); np.save('deep.npy', np.repeat((g16 >> 8).astype('u1')[..., None], 3, 2))
)");
  for (const char* name : {"rgb", "grey", "palette", "rgba", "bit", "deep"})
    EXPECT_EQ(worst_difference(read_image(concat(folder, std::string_view(name), ".png")),
                               concat(folder, std::string_view(name), ".npy")),
              0)
        << name;
}

TEST(Image, DecodedJpegsEqualPilsWithinOneLevel) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
def save(name, im, **k):
    im.save(name + '.jpg', **k); np.save(name + '.npy', np.asarray(Image.open(name + '.jpg').convert('RGB')))
save('plain', im, quality=90)
save('subsampled', im, quality=75, subsampling=2)
save('full', im, quality=95, subsampling=0)
save('progressive', im, progressive=True)
save('grey', im.convert('L'))
)");
  for (const char* name : {"plain", "subsampled", "full", "progressive", "grey"})
    EXPECT_LE(worst_difference(read_image(concat(folder, std::string_view(name), ".jpg")),
                               concat(folder, std::string_view(name), ".npy")),
              1)
        << name;
}

TEST(Image, ResizingEqualsPilsInBothFiltersAndAllDirections) {
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

TEST(Image, ShortSideAndCropRoundAsTorchvisionDoes) {
  const Image image = make_image(131, 97, 3);
  EXPECT_EQ(resize_short_side(image, 64).width, 64 * 131 / 97);
  EXPECT_EQ(resize_short_side(image, 64).height, 64);
  EXPECT_EQ(resize_short_side(make_image(97, 131, 3), 64).height, 64 * 131 / 97);
  Image line = make_image(9, 1, 1);
  for (int i = 0; i < 9; ++i) line.pixels[size_t(i)] = uint8_t(i);
  EXPECT_EQ(centre_crop(line, 3, 1).pixels[0], 3);  // (9-3)/2
  EXPECT_EQ(centre_crop(line, 4, 1).pixels[0], 2);  // 2.5 rounds to even: 2
  EXPECT_EQ(centre_crop(line, 2, 1).pixels[0], 4);  // 3.5 rounds to even: 4
  EXPECT_EQ(centre_crop(line, 8, 1).pixels[0], 0);  // 0.5 rounds to even: 0
  EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { centre_crop(line, 10, 1); }), "9x1");
}

TEST(Image, WhatIsNotASupportedPictureIsRefusedByName) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
im.convert('CMYK').save('cmyk.jpg')
im.save('x.gif'); im.save('x.bmp'); im.save('x.tiff'); im.save('x.webp')
)");
  EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [&] { read_image(folder + "cmyk.jpg"); }), "CMYK");
  for (const char* name : {"x.gif", "x.bmp", "x.tiff", "x.webp"})
    EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [&] { read_image(folder + name); }), name);
  write_text(folder + "empty.png", "");
  write_text(folder + "text.jpg", "hello");
  for (const char* name : {"empty.png", "text.jpg", "none.png"})
    EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_image(folder + name); }), name);
}

TEST(Image, APictureOfTooManyPixelsIsRefusedBeforeItIsDecoded) {
  const std::string folder = test_folder();
  run_python(folder, R"(
import struct, zlib
def chunk(kind, data): return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
open('huge.png', 'wb').write(b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', struct.pack('>IIBBBBB', 100000, 100000, 8, 2, 0, 0, 0)) + chunk(b'IDAT', zlib.compress(b'')) + chunk(b'IEND', b''))
Image.new('L', (16, 16)).save('x.jpg')
j = bytearray(open('x.jpg', 'rb').read()); i = j.index(b'\xff\xc0'); j[i + 5:i + 9] = b'\xf0\x00\xf0\x00'; open('huge.jpg', 'wb').write(j)
)");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_image(folder + "huge.png"); }), "huge.png");
  EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_image(folder + "huge.jpg"); }), "61440x61440");
}

TEST(Image, EveryDamagedPngIsRefused) {
  const std::string folder = test_folder(), path = folder + "damaged.png";
  run_python(folder, std::string(kPictures) + "im.resize((20, 15)).save('x.png')\n");
  EXPECT_EQ(damage(path, read_file(folder + "x.png"), 1, [](const std::string& file) { read_image(file); }), 0);
}

TEST(Image, ADamagedJpegIsRefusedOrDecodedAndATruncatedOneRefused) {
  const std::string folder = test_folder(), path = folder + "damaged.jpg";
  run_python(folder, std::string(kPictures) +
                         "im.resize((40, 30)).save('x.jpg'); im.resize((40, 30)).save('p.jpg', progressive=True)\n");
  for (const char* name : {"x.jpg", "p.jpg"}) {
    const std::string good = read_file(folder + name);
    damage(path, good, 3, [](const std::string& file) { read_image(file); });
    for (size_t cut = 0; cut + 2 < good.size(); cut += 3) {
      write_text(path, good.substr(0, cut));
      EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_image(path); }), path);
    }
  }
}

}  // namespace
}  // namespace temper
