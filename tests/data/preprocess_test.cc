// SPDX-License-Identifier: Apache-2.0
#include "data/preprocess.h"

#include <cmath>

#include "data/npy.h"
#include "helpers.h"

namespace temper {
namespace {

Preprocess complete(const char* type, PreprocessOptions options = {}) {
  return complete_preprocess(options, TensorType::parse(type), "x");
}

Tensor prepared(const std::string& path, const Preprocess& preprocess) {
  Tensor tensor(preprocess.dtype, preprocess.sample_dims());
  preprocess_image(read_image(path), preprocess, tensor.raw_mutable());
  return tensor;
}

double worst(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.type(), b.type());
  const auto x = a.to_doubles(), y = b.to_doubles();
  double result = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) result = std::max(result, std::abs(x[i] - y[i]));
  return result;
}

TEST(Preprocess, DefaultsFollowFromTheInputType) {
  const Preprocess imagenet = complete("f32[batch,3,224,224]");
  EXPECT_EQ(imagenet.text(),
            "short side to 256 (bilinear), centre crop 224x224, RGB, NCHW, (pixel/255 - [0.485,0.456,0.406]) / "
            "[0.229,0.224,0.225]");
  EXPECT_EQ(complete("f32[1,3,299,299]").resize, 342);
  EXPECT_EQ(complete("f32[1,224,224,3]").layout, PixelLayout::nhwc);
  EXPECT_EQ(complete("f32[1,3,32,32]").resize, 0);
  EXPECT_EQ(complete("f32[1,3,48,320]").resize, 0);
  EXPECT_EQ(complete("f32[batch,1,8,8]").text(), "stretched to 8x8 (bilinear), grey, NCHW, pixel/255");
  EXPECT_EQ(complete("u8[1,224,224,3]").text(),
            "short side to 256 (bilinear), centre crop 224x224, RGB, NHWC, pixels 0 to 255");
}

TEST(Preprocess, WordsReadBackAsTheSameOptions) {
  const PreprocessOptions all{.fit = PictureFit::letterbox,
                              .crop_height = 48,
                              .crop_width = 320,
                              .mean = {0.1, 0.2, 0.3},
                              .std = {1.0 / 3},
                              .scale = 1.0 / 255,
                              .channels = ChannelOrder::bgr,
                              .layout = PixelLayout::nhwc,
                              .filter = ResizeFilter::bicubic,
                              .pad = 0};
  EXPECT_EQ(parse_preprocess(text_of(all)), all);
  EXPECT_EQ(parse_preprocess(""), PreprocessOptions());
  for (const char* type : {"f32[batch,3,224,224]", "f32[1,3,48,320]", "f32[1,1,8,8]", "u8[1,224,224,3]"}) {
    const Preprocess once = complete(type);
    EXPECT_EQ(complete(type, parse_preprocess(text_of(once.options()))).text(), once.text());
  }
  for (const char* wrong : {"fit", "fit=round", "mean=1,2", "mean=1,,2", "scale=0", "scale=nan", "crop=0",
                            "crop=9999999", "resize=-1", "crop_share=2", "pad=256", "x=1", "std=1/0"})
    EXPECT_CONTAINS(error_of(ErrorKind::usage, [&] { parse_preprocess(wrong); }), "says nothing of pictures");
}

TEST(Preprocess, WhatIsAskedGoesBeforeWhatIsRemembered) {
  const PreprocessOptions base = parse_preprocess("fit=crop resize=256 crop=224x224 mean=0.5 scale=1/255 order=bgr");
  EXPECT_EQ(text_of(over(base, parse_preprocess("fit=letterbox mean=0"))),
            "fit=letterbox crop=224x224 mean=0 scale=1/255 order=bgr");
  EXPECT_EQ(over(base, parse_preprocess("resize=240")).resize, 240);
  EXPECT_EQ(over(parse_preprocess("fit=letterbox"), parse_preprocess("resize=0")).fit, PictureFit::automatic);
  EXPECT_EQ(over(base, {}), base);
}

TEST(Preprocess, OptionsThatDoNotFitAreRefused) {
  const auto refused = [](const char* type, PreprocessOptions options = {}) {
    return error_of(ErrorKind::usage, [&] { complete(type, options); });
  };
  EXPECT_CONTAINS(refused("f32[batch,10]"), "takes no pictures");
  EXPECT_CONTAINS(refused("i64[1,3,8,8]"), "floats or as u8");
  EXPECT_CONTAINS(refused("f32[1,4,8,8]"), "1 or 3 channels");
  EXPECT_CONTAINS(refused("f32[1,3,H,W]"), "--crop");
  EXPECT_CONTAINS(refused("f32[1,3,224,224]", {.crop_height = 200}), "crop 200");
  EXPECT_CONTAINS(refused("f32[1,3,224,224]", {.resize = 100}), "too little");
  EXPECT_CONTAINS(refused("f32[1,3,224,224]", {.mean = {1, 2}}), "--mean");
  EXPECT_CONTAINS(refused("f32[1,3,224,224]", {.std = {0}}), "--std");
  EXPECT_CONTAINS(refused("u8[1,3,224,224]", {.mean = {0.5}}), "do not apply");
  EXPECT_CONTAINS(refused("f32[1,3,224,224]", {.layout = PixelLayout::nhwc}), "layout");
  EXPECT_EQ(complete("f32[1,3,H,W]", {.crop_height = 48, .crop_width = 320}).width, 320);
}

TEST(Preprocess, AFitAndWhatHasNoEffectBesideItAreRefused) {
  const auto refused = [](const char* words) {
    return error_of(ErrorKind::usage, [&] { complete("f32[1,3,32,32]", parse_preprocess(words)); });
  };
  EXPECT_CONTAINS(refused("fit=stretch resize=36"), "either --fit stretch or --resize 36");
  EXPECT_CONTAINS(refused("fit=crop resize=0"), "either --fit crop or --resize 0");
  EXPECT_CONTAINS(refused("fit=letterbox resize=0"), "is letterboxed");
  for (const char* words : {"pad=3", "fit=crop pad=3", "resize=36 pad=3"})
    EXPECT_CONTAINS(refused(words), "leave --pad out");
  // What a preset says gives way to what is asked.
  const auto beside = [](const char* preset, const char* asked) {
    return complete("f32[1,3,32,32]", over(parse_preprocess(preset), parse_preprocess(asked)));
  };
  EXPECT_EQ(beside("fit=letterbox pad=114", "fit=stretch").resize, 0);
  EXPECT_EQ(beside("fit=letterbox pad=114", "resize=36").resize, 36);
  EXPECT_EQ(beside("fit=letterbox pad=114", "pad=3").pad, 3);
  EXPECT_EQ(beside("fit=stretch", "resize=36").resize, 36);
  EXPECT_EQ(beside("fit=crop", "resize=0").resize, 0);
  EXPECT_EQ(beside("resize=36", "fit=stretch").resize, 0);
}

TEST(Preprocess, ResultsEqualPilAndNumpy) {
  const std::string folder = test_folder();
  run_python(folder, R"(
r = np.random.RandomState(3)
im = Image.fromarray(r.randint(0, 256, (300, 401, 3)).astype('u1')).resize((401, 300), Image.BICUBIC)
im.save('x.png')
def crop(im, h, w):
    t, l = int(round((im.height - h) / 2.)), int(round((im.width - w) / 2.))
    return np.asarray(im.crop((l, t, l + w, t + h)))
mean, std = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
big = crop(im.resize((int(256 * 401 / 300), 256), Image.BILINEAR), 224, 224)
np.save('imagenet.npy', ((big / 255. - mean) / std).transpose(2, 0, 1).astype('f4'))
np.save('nhwc.npy', ((big / 255. - mean) / std).astype('f4'))
np.save('bgr.npy', ((big / 255. - mean) / std)[..., ::-1].transpose(2, 0, 1).astype('f4'))
np.save('u8.npy', big)
np.save('caffe.npy', (big[..., ::-1] - np.array([104., 117, 124])).transpose(2, 0, 1).astype('f4'))
np.save('grey.npy', (np.asarray(im.convert('L').resize((8, 8), Image.BILINEAR)) / 255.)[None].astype('f4'))
np.save('half.npy', (np.asarray(im.resize((40, 24), Image.BICUBIC)) / 127.5 - 1).transpose(2, 0, 1).astype('f2'))
)");
  const std::string picture = folder + "x.png";
  EXPECT_LT(worst(prepared(picture, complete("f32[1,3,224,224]")), read_npy(folder + "imagenet.npy")), 1e-6);
  EXPECT_LT(worst(prepared(picture, complete("f32[1,224,224,3]")), read_npy(folder + "nhwc.npy")), 1e-6);
  EXPECT_LT(worst(prepared(picture, complete("f32[1,3,224,224]", {.channels = ChannelOrder::bgr})),
                  read_npy(folder + "bgr.npy")),
            1e-6);
  EXPECT_EQ(worst(prepared(picture, complete("u8[1,224,224,3]")), read_npy(folder + "u8.npy")), 0);
  EXPECT_EQ(worst(prepared(picture,
                           complete("f32[1,3,224,224]",
                                    {.mean = {124, 117, 104}, .std = {1}, .scale = 1, .channels = ChannelOrder::bgr})),
                  read_npy(folder + "caffe.npy")),
            0);
  EXPECT_LT(worst(prepared(picture, complete("f32[1,1,8,8]")), read_npy(folder + "grey.npy")), 1e-6);
  EXPECT_LT(worst(prepared(picture,
                           complete("f16[1,3,24,40]", {.mean = {0.5}, .std = {0.5}, .filter = ResizeFilter::bicubic})),
                  read_npy(folder + "half.npy")),
            1e-3);
}

}  // namespace
}  // namespace temper
