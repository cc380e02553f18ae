# SPDX-License-Identifier: Apache-2.0
"""usage: resnet18.py [--size N] [--half]: converts torchvision's ResNet-18 module by module while PyTorch runs it, as converters of that kind do,
and compares what the engine computes with PyTorch.

Each module gets a hook that adds the layers of its kind behind the tensors of its inputs. Runs on a GPU where PyTorch sees one; otherwise in the
memory of the host."""
import argparse

import numpy
import tensorrt as trt
import torch
import torchvision


class Recorder(trt.ILogger):
    def __init__(self):
        trt.ILogger.__init__(self)

    def log(self, severity, msg):
        if severity in (trt.ILogger.ERROR, trt.ILogger.INTERNAL_ERROR):
            print("error:", msg)


def array(tensor):
    return tensor.detach().cpu().numpy()


class Converter:
    """Adds layers for modules; `self.tensors`: those of PyTorch's tensors, by their ids, which are kept alive."""

    def __init__(self, network):
        self.network, self.tensors, self.kept = network, {}, []

    def of(self, tensor):
        return self.tensors[id(tensor)]

    def put(self, tensor, trt_tensor):
        self.tensors[id(tensor)] = trt_tensor
        self.kept.append(tensor)

    def hook(self, module, inputs, output):
        add = getattr(self, type(module).__name__, None)
        if add:
            layer = add(module, self.of(inputs[0]), inputs[0], output)
            layer.name = f"{type(module).__name__} {self.network.num_layers}"
            if module.__class__ is torch.nn.ReLU:  # in place: the tensor is the same, with another value
                self.kept.append(inputs[0])
            self.put(output, layer.get_output(0))

    def Conv2d(self, module, x, *_):
        layer = self.network.add_convolution_nd(input=x, num_output_maps=module.out_channels, kernel_shape=module.kernel_size, kernel=array(module.weight),
                                                bias=None if module.bias is None else array(module.bias))  # fmt: skip
        layer.stride_nd, layer.padding_nd, layer.dilation_nd, layer.num_groups = module.stride, module.padding, module.dilation, module.groups
        return layer

    def BatchNorm2d(self, module, x, *_):
        scale = array(module.weight) / numpy.sqrt(array(module.running_var) + module.eps)
        return self.network.add_scale_nd(x, trt.ScaleMode.CHANNEL, array(module.bias) - array(module.running_mean) * scale, scale, numpy.ones_like(scale), 1)

    def ReLU(self, module, x, *_):
        return self.network.add_activation(x, trt.ActivationType.RELU)

    def MaxPool2d(self, module, x, *_):
        layer = self.network.add_pooling_nd(x, trt.PoolingType.MAX, (module.kernel_size,) * 2)
        layer.stride_nd, layer.padding_nd = (module.stride,) * 2, (module.padding,) * 2
        return layer

    def AdaptiveAvgPool2d(self, module, x, given, output):
        layer = self.network.add_pooling_nd(x, trt.PoolingType.AVERAGE, tuple(given.shape[2:]))
        layer.stride_nd = tuple(given.shape[2:])
        return layer

    def Linear(self, module, x, given, output):
        weights = self.network.add_constant((module.out_features, module.in_features), array(module.weight)).get_output(0)
        bias = self.network.add_constant((1, module.out_features), array(module.bias)).get_output(0)
        y = self.network.add_matrix_multiply(x, trt.MatrixOperation.NONE, weights, trt.MatrixOperation.TRANSPOSE)
        return self.network.add_elementwise(y.get_output(0), bias, trt.ElementWiseOperation.SUM)


class Functions(torch.overrides.TorchFunctionMode):
    """What is called outside of modules: residual sums, and the flattening before the dense layer."""

    def __init__(self, converter):
        super().__init__()
        self.converter = converter

    def __torch_function__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        to, network = self.converter, self.converter.network
        if function in (torch.Tensor.add, torch.Tensor.__iadd__, torch.Tensor.add_) and all(id(x) in to.tensors for x in args[:2]):
            to.put(output, network.add_elementwise(to.of(args[0]), to.of(args[1]), trt.ElementWiseOperation.SUM).get_output(0))
        elif function is torch.flatten:
            layer = network.add_shuffle(to.of(args[0]))
            layer.reshape_dims = tuple(output.shape)
            to.put(output, layer.get_output(0))
        return output


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--half", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # as of the network below
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = torchvision.models.resnet18(weights=None).eval()
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # as if it had been trained
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    model, x = model.to(device), torch.rand(1, 3, options.size, options.size).to(device)

    logger = Recorder()
    builder = trt.Builder(logger)
    flags = 1 << int(trt.NetworkDefinitionCreationFlag.EXPLICIT_BATCH) if hasattr(trt.NetworkDefinitionCreationFlag, "EXPLICIT_BATCH") else 0
    network = builder.create_network(flags)
    converter = Converter(network)
    given = network.add_input(name="input_0", shape=tuple(x.shape), dtype=trt.float32)
    given.location = trt.TensorLocation.DEVICE
    converter.put(x, given)
    hooks = [module.register_forward_hook(converter.hook) for module in model.modules()]
    with torch.no_grad(), Functions(converter):
        expected = model(x)
    for hook in hooks:
        hook.remove()
    output = converter.of(expected)
    output.name, output.dtype = "output_0", trt.float32
    network.mark_output(output)
    assert tuple(output.shape) == tuple(expected.shape), output.shape

    config = builder.create_builder_config()
    config.clear_flag(trt.BuilderFlag.TF32)
    if options.half:
        config.set_flag(trt.BuilderFlag.FP16)
    plan = builder.build_serialized_network(network, config)
    assert plan is not None
    engine = trt.Runtime(logger).deserialize_cuda_engine(plan)
    context = engine.create_execution_context()
    got = torch.empty_like(expected)
    assert context.set_tensor_address("input_0", x.data_ptr()) and context.set_tensor_address("output_0", got.data_ptr())
    stream = torch.cuda.current_stream().cuda_stream if device == "cuda" else 0
    assert context.execute_async_v3(stream)
    if device == "cuda":
        torch.cuda.synchronize()
    off = (got - expected).abs().max().item() / expected.abs().max().item()
    print(f"{network.num_layers} layers, off by {off:.2e} of the largest output")
    assert off < (2e-2 if options.half else 1e-4), "the outputs differ"


if __name__ == "__main__":
    main()
