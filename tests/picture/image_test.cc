// SPDX-License-Identifier: Apache-2.0
#include "picture/image.h"

#include "../data/helpers.h"
#include "pictures.h"

namespace temper {
namespace {

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

TEST(Image, CmykAndYcckJpegsBecomeRgbByPilsFormula) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
c, m, y, k = [Image.fromarray(np.roll(a[..., i % 3], 11 * i, 1)) for i in range(4)]
Image.merge('CMYK', (c, m, y, k)).save('adobe.jpg', quality=95)
j = bytearray(open('adobe.jpg', 'rb').read()); at = j.index(b'Adobe')
assert j[at + 11] == 0
j[at + 11] = 2; open('ycck.jpg', 'wb').write(j)
open('plain.jpg', 'wb').write(j[:at - 4] + j[at + 12:])  # no marker: PIL takes it for Adobe's all the same
for name in ('adobe', 'ycck', 'plain'): np.save(name + '.npy', np.asarray(Image.open(name + '.jpg').convert('RGB')))
)");
  for (const char* name : {"adobe", "ycck", "plain"})
    EXPECT_LE(worst_difference(read_image(concat(folder, std::string_view(name), ".jpg")),
                               concat(folder, std::string_view(name), ".npy")),
              1)
        << name;
}

TEST(Image, WebpBmpTiffAndPnmEqualPils) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
def save(name, im, **k): im.save(name, **k); np.save(name + '.npy', np.asarray(Image.open(name).convert('RGB')))
rgba = im.copy(); rgba.putalpha(77)
save('lossless.webp', im, lossless=True); save('lossy.webp', im, quality=80); save('clear.webp', rgba, lossless=True)
save('rgb.bmp', im); save('grey.bmp', im.convert('L')); save('palette.bmp', im.quantize(64)); save('bit.bmp', im.convert('1')); save('rgba.bmp', rgba)
save('rgb.tiff', im); save('grey.tiff', im.convert('L')); save('bit.tiff', im.convert('1')); save('palette.tiff', im.quantize(64)); save('rgba.tiff', rgba)
save('lzw.tif', im, compression='tiff_lzw'); save('deflate.tif', im, compression='tiff_adobe_deflate')
for turned in range(1, 9): save('turned%d.tiff' % turned, im, tiffinfo={274: turned})
im.save('pages.tiff', save_all=True, append_images=[im.rotate(90)]); np.save('pages.tiff.npy', a)
rows = bytearray(open('rgb.bmp', 'rb').read()); rows[22:26] = (-97).to_bytes(4, 'little', signed=True)
open('down.bmp', 'wb').write(rows); np.save('down.bmp.npy', np.asarray(Image.open('down.bmp').convert('RGB')))
save('rgb.ppm', im); save('grey.pgm', im.convert('L'))
grey = a[..., 0].tobytes()
def save_as(name, header, samples):
    open(name, 'wb').write(header + samples); np.save(name + '.npy', np.asarray(Image.open(name).convert('RGB')))
save_as('notes.pnm', b'P5\n# 1 2 3\n131 #\n\t97\r\n255\n', grey)
save_as('dim.pgm', b'P5 131 97 100 ', bytes(v % 101 for v in grey)); save_as('bits.ppm', b'P6 131 97 1\n', bytes(v % 2 for v in a.tobytes()))
)");
  for (const char* name :
       {"lossless.webp", "clear.webp",   "rgb.bmp",      "grey.bmp",     "palette.bmp",  "bit.bmp",
        "rgba.bmp",      "rgb.tiff",     "grey.tiff",    "bit.tiff",     "palette.tiff", "rgba.tiff",
        "lzw.tif",       "deflate.tif",  "pages.tiff",   "turned1.tiff", "turned2.tiff", "turned3.tiff",
        "turned4.tiff",  "turned5.tiff", "turned6.tiff", "turned7.tiff", "turned8.tiff", "rgb.ppm",
        "grey.pgm",      "notes.pnm",    "dim.pgm",      "bits.ppm",     "down.bmp"})
    EXPECT_EQ(worst_difference(read_image(concat(folder, std::string_view(name))),
                               concat(folder, std::string_view(name), ".npy")),
              0)
        << name;
  EXPECT_LE(worst_difference(read_image(folder + "lossy.webp"), folder + "lossy.webp.npy"), 1);
}

TEST(Image, ATruncatedWebpBmpTiffOrPnmIsRefusedAndADamagedOneIsNoCrash) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) +
                         "s = im.resize((20, 15))\nfor kind in ('webp', 'bmp', 'tiff', 'ppm'): s.save('x.' + kind)\n");
  for (const char* kind : {"webp", "bmp", "tiff", "ppm"}) {
    const std::string good = read_file(concat(folder, "x.", std::string_view(kind))),
                      path = concat(folder, "damaged.", std::string_view(kind));
    damage(path, good, 5, [](const std::string& file) { read_image(file); });
    for (size_t cut = 0; cut + 4 < good.size(); cut += 3) {
      write_text(path, good.substr(0, cut));
      EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_image(path); }), path);
    }
  }
}

TEST(Image, WhatIsNotASupportedPictureIsRefusedByName) {
  const std::string folder = test_folder();
  run_python(folder, std::string(kPictures) + R"(
im.save('x.gif'); im.save('moving.webp', save_all=True, append_images=[im.rotate(90)])
Image.fromarray(np.ones((4, 4), 'f4')).save('float.tiff')
open('lengths.bmp', 'wb').write(b'BM' + bytes(8) + (1078).to_bytes(4, 'little') + (40).to_bytes(4, 'little') + (4).to_bytes(4, 'little') * 2 + b'\1\0\x08\0\1' + bytes(2000))
im.save('x.jp2'); im.save('x.j2k')
for name, header in [('text.ppm', b'P3\n1 1 255\n0 0 0\n'), ('deep.pgm', b'P5 1 1 65535\n\0\0'), ('bits.pnm', b'P4\n1 1\n\0')]: open(name, 'wb').write(header)
)");
  for (const char* name :
       {"x.jp2", "x.j2k", "text.ppm", "deep.pgm", "bits.pnm", "x.gif", "moving.webp", "float.tiff", "lengths.bmp"})
    EXPECT_CONTAINS(error_of(ErrorKind::unsupported, [&] { read_image(folder + name); }), name);
  write_text(folder + "empty.png", "");
  write_text(folder + "text.jpg", "hello");
  // More numbers than 64 bits hold, no number, none behind the last, and samples that are above none.
  write_text(folder + "long.ppm", "P6 99999999999999999999 1 255\n");
  write_text(folder + "word.ppm", "P6 one 1 255\n");
  write_text(folder + "end.ppm", "P6 1 1 255");
  write_text(folder + "zero.ppm", "P6 1 1 0\n123");
  write_text(folder + "none.ppm", "P6 0 1 255\n123");
  for (const char* name :
       {"empty.png", "text.jpg", "none.png", "long.ppm", "word.ppm", "end.ppm", "zero.ppm", "none.ppm"})
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
side = (100000).to_bytes(4, 'little')
Image.new('L', (16, 16)).save('x.tiff'); t = bytearray(open('x.tiff', 'rb').read())
for tag in (256, 257): i = t.index(struct.pack('<HH', tag, 4)); t[i + 8:i + 12] = side
open('huge.tiff', 'wb').write(t)
# One bit a pixel: 1.25 GB of zeros, none of them on the disk.
with open('huge.bmp', 'wb') as f: f.write(b'BM' + bytes(8) + struct.pack('<IIiiHHIIiiII', 62, 40, 100000, 100000, 1, 1, 0, 0, 0, 0, 2, 2) + b'\0\0\0\0\xff\xff\xff\0'); f.truncate(62 + 12512 * 100000)
open('huge.ppm', 'wb').write(b'P6 100000 100000 255\n')
)");
  for (const char* name : {"huge.tiff", "huge.bmp", "huge.ppm"})
    EXPECT_CONTAINS(error_of(ErrorKind::bad_file, [&] { read_image(folder + name); }), "100000x100000");
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
