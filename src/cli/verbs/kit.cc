// SPDX-License-Identifier: Apache-2.0
// temper kit: puts a model, its ranges and measured times into one folder that a device builds from.
#include "cli/kit.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/data_flags.h"
#include "cli/json_text.h"
#include "cli/outputs.h"
#include "cli/verb.h"
#include "optimize/precision.h"
#include "plan/file.h"

namespace temper::cli {

void add_kit(Command& verb, Context& context) {
  struct KitFlags {
    std::string model, folder;
    ModelFlags flags;
    DataFlags pictures;
    std::vector<std::string> times;
    bool force = false;
  };
  auto options = std::make_shared<KitFlags>();
  verb.add_option("model", options->model, "the ONNX model to put into the kit").required();
  verb.add_option("-o,--output", options->folder, "the folder to write").required();
  verb.add_option("--precision", options->flags.precision, "precision that devices build")
      .check(one_of(
          {"fp32", "bf16", "int8", "int8+bf16", "fp16", "tf32", "int8+fp16", "fp8", "fp8+bf16", "fp8+fp16", "best"}))
      .capture_default_str();
  verb.add_option("--calibration", options->flags.calibration,
                  "int8, fp16: the file of ranges that `temper calibrate` wrote for this model");
  verb.add_option("--times", options->times,
                  "timing caches of builds on such devices (--timing-cache of `temper build`), joined: what they hold "
                  "need not be measured again")
      .expected(1, 1 << 16);
  add_activation_scales(verb, options->flags);
  add_keep_flags(verb, options->flags);
  add_shape_flag(verb, options->flags);
  verb.add_option("--disable", options->flags.disabled_passes,
                  "passes to skip, separated by commas; 'all' skips every pass");
  add_cache_flag(verb, options->flags);
  verb.add_flag("--input-pictures", options->flags.input_pictures,
                "plans take pictures as they are, as for `temper build`");
  verb.add_option("--preprocess", options->pictures.preprocess,
                  "how pictures become inputs, for the plan to remember, as for `temper build`");
  add_force_flag(verb, options->force);
  verb.footer("On the device: temper build --from-kit FOLDER -o model.plan");
  verb.callback([options, &context] {
    const ModelFlags& flags = options->flags;
    if (is_plan(options->model))
      fail(ErrorKind::usage, "'", options->model, "' is a plan, which is for one machine; give the ONNX model");
    const BuildOptions checked = build_options(flags, options->model, context);  // refuses shapes that are none
    if (quantizes(flags.precision) && flags.calibration.empty() &&
        checked.placement.activation_scales == ActivationScales::tensor)
      fail(ErrorKind::usage, "--precision ", flags.precision, " needs --calibration RANGES; temper calibrate makes it");
    const PreprocessOptions told = options->pictures.pictures();
    write_kit(options->folder, options->model, flags.calibration, options->times,
              {.precision = flags.precision,
               .shapes = flags.shapes,
               .buckets = flags.buckets,
               .activation_scales = flags.activation_scales,
               .keep_first = flags.keep_first,
               .keep_last = flags.keep_last,
               .keep_fp32 = flags.keep_fp32,
               .keep_bf16 = flags.keep_bf16,
               .keep_fp16 = flags.keep_fp16,
               .disabled_passes = flags.disabled_passes,
               .preprocess = told == PreprocessOptions() ? "" : text_of(told),
               .cache = flags.cache,
               .input_pictures = flags.input_pictures},
              options->force);
    if (context.json) print_json({{"schema", kKitSchema}, {"folder", options->folder}});
    else std::printf("%s\n", options->folder.c_str());
  });
}

}  // namespace temper::cli
