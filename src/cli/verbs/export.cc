// SPDX-License-Identifier: Apache-2.0
// temper export: hands over to Python, which exports a model of PyTorch, Keras or TensorFlow.
#include "cli/python.h"

namespace temper::cli {

void add_export(Command& verb, Context& context) {
  auto flags = std::make_shared<PythonFlags>();
  verb.add_option("source", flags->word, "the model to export, in one of the forms below")
      .required()
      .type_name("SOURCE");
  verb.add_option("-o,--output", flags->word, "the ONNX file to write").required().type_name("FILE.onnx");
  verb.add_option("--opset", flags->word, "opset of the ONNX file; by default the framework chooses it").type_name("N");
  verb.add_option("--exporter", flags->word,
                  "PyTorch: which exporter to use, export (torch.export) or torchscript; auto tries export first")
      .type_name("auto|export|torchscript");
  verb.add_flag("--no-check", flags->flag, "write the file and do not check it");
  verb.add_flag(
      "--force", flags->flag,
      "replace an output file that temper export did not write; a file that this command reads is never replaced");
  add_source_options(verb, *flags);
  verb.add_option("--seed", flags->word, "seed for random weights and for the inputs of the check (0)").type_name("N");
  verb.add_option("--rtol", flags->word, "relative tolerance of the check (1e-3; with --half 1e-2)").type_name("FLOAT");
  verb.add_option("--atol", flags->word, "absolute tolerance of the check (1e-4; with --half 1e-2)").type_name("FLOAT");
  verb.footer(
      "SOURCE is one of\n"
      "  torchvision:NAME   a model of torchvision\n"
      "  timm:NAME          a model of timm\n"
      "  keras:NAME         one of keras.applications\n"
      "  hf:FOLDER          a local folder of transformers, or of one network of diffusers (hf:FOLDER/unet)\n"
      "  FILE.py:CALLABLE   returns a torch.nn.Module or a Keras model\n"
      "  FILE.pt, .pth      a TorchScript archive\n"
      "  FILE.pt2           an archive of torch.export\n"
      "  FILE.keras, .h5    a Keras model\n"
      "  FOLDER             a TensorFlow SavedModel\n"
      "  FILE.tflite        a TensorFlow Lite model\n"
      "\nAfter the export the framework, ONNX Runtime and Temper answer the same inputs, and the differences are "
      "printed.\n"
      "Python does the work: the module `temper` of python3, with the framework installed there.");
  verb.callback([flags, &context] { hand_over_to_python(flags->python, context); });
}

}  // namespace temper::cli
