# SPDX-License-Identifier: Apache-2.0
"""One engine in a process of its own, under the protocol of `temper bench PLAN --pipe`.

After loading and warming up it prints `ready {json}`. For every line `N` it runs N times (in each of its streams) and prints one
JSON array of N times in milliseconds, with several streams the mean time between two ends of runs; for a line `output FILE` it
saves its outputs by name as .npz and prints `"saved"`. It waits in a blocking read, so that it takes no time from another engine.
The inputs are written to it once: transfers of data into the engine are part of no engine's time.

Exit code 3, with one line on standard error: the engine is not there, or does not take this model.
"""
import argparse
import contextlib
import json
import os
import sys
import threading
import time

NOT_HERE = 3


class Refusal(Exception):
    """Why an engine cannot run this model. One line."""


def resident_peak_bytes():
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmHWM")


class Loaded:
    """An engine that is ready. runs: one callable for each stream, each safe beside the others; outputs(): those of the last run, by
    name in the model's order; times(n): milliseconds of n runs of the only stream, where the device has a clock of its own."""

    def __init__(self, version, seconds, runs, outputs, how="", times=None):
        self.version, self.seconds, self.runs, self.outputs, self.how, self.times = version, seconds, runs, outputs, how, times


def gpu_of(args):
    """The number of the GPU, or None for the CPU."""
    return int(args.device.partition(":")[2] or 0) if args.device.startswith("cuda") else None


def load_onnxruntime(args, data):
    import onnxruntime

    gpu = gpu_of(args)
    if args.precision == "bf16":
        raise Refusal("ONNX Runtime has no bf16 convolutions and products on CPUs")
    if args.precision == "fp16" and not any(array.dtype == "float16" for array in data.values()):
        raise Refusal("ONNX Runtime computes in the types of the file: give it a model of fp16")
    if gpu is not None and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        raise Refusal("this ONNX Runtime has no CUDA provider; install onnxruntime-gpu")
    providers = ["CPUExecutionProvider"] if gpu is None else [("CUDAExecutionProvider", {"device_id": gpu, "use_tf32": int(args.precision == "tf32")})]
    seconds, bindings, runs = 0.0, [], []
    for _ in range(args.streams):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        start = time.perf_counter()
        session = onnxruntime.InferenceSession(args.model, options, providers=providers)
        seconds += time.perf_counter() - start
        if gpu is not None and session.get_providers()[0] != "CUDAExecutionProvider":
            raise Refusal("ONNX Runtime's CUDA provider could not be opened")
        # Outputs are bound once, so that no run allocates or copies them into new arrays.
        binding = session.io_binding()
        where = ("cpu", 0) if gpu is None else ("cuda", gpu)
        for name in [port.name for port in session.get_inputs()]:
            binding.bind_ortvalue_input(name, onnxruntime.OrtValue.ortvalue_from_numpy(data[name], *where))
        names = [output.name for output in session.get_outputs()]
        for name in names:
            binding.bind_output(name, *where)
        bindings.append(binding)

        def run(session=session, binding=binding):
            session.run_with_iobinding(binding)
            if gpu is not None:
                binding.synchronize_outputs()

        runs.append(run)
    return Loaded(onnxruntime.__version__, seconds, runs, lambda: dict(zip(names, bindings[0].copy_outputs_to_cpu())))


def load_openvino(args, data):
    import openvino

    if gpu_of(args) is not None:
        raise Refusal("OpenVINO has no NVIDIA GPUs")
    if args.precision not in ("fp32", "int8", "bf16"):
        raise Refusal(f"OpenVINO computes in fp32, bf16 and int8 on CPUs, not in {args.precision}")
    core = openvino.Core()
    start = time.perf_counter()
    model = core.read_model(args.model)
    model.reshape({name: list(array.shape) for name, array in data.items()})
    settings = {
        "INFERENCE_PRECISION_HINT": {"fp32": "f32", "int8": "f32", "bf16": "bf16"}[args.precision],
        "INFERENCE_NUM_THREADS": args.threads * args.streams,
        "PERFORMANCE_HINT": "LATENCY",
    }
    if args.streams > 1:
        settings.update({"PERFORMANCE_HINT": "THROUGHPUT", "NUM_STREAMS": args.streams})
    compiled = core.compile_model(model, "CPU", settings)
    if args.precision == "bf16" and compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name() != "bf16":
        raise Refusal("OpenVINO does not compute in bf16 on this CPU")
    requests = [compiled.create_infer_request() for _ in range(args.streams)]
    seconds = time.perf_counter() - start
    for request in requests:
        for name, array in data.items():
            request.set_tensor(name, openvino.Tensor(array, shared_memory=True))
    return Loaded(openvino.__version__.split("-")[0], seconds, [request.infer for request in requests],
                  lambda: {output.get_any_name(): requests[0].get_tensor(output).data.copy() for output in compiled.outputs})


def source_of(args, engine, kinds):
    """The model in its own framework: --source with --weights and --lora, or what `temper export` noted in the file. kinds: classes that this
    engine runs."""
    notes = {}
    if not args.source:
        try:
            import onnx
            notes = {entry.key: entry.value for entry in onnx.load(args.model, load_external_data=False).metadata_props}
        except ImportError:
            pass
    spec = args.source or notes.get("temper.source", "")
    if not spec:
        raise Refusal(f"{engine} reads no ONNX: --source names the model that the file was made from, as temper export has it")
    sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    from temper.export.errors import ExportError
    from temper.export.source import load
    from temper.export.spec import Options
    past, half = (notes.get(f"temper.{name}") == "true" for name in ("past", "half"))
    options = Options(batch=args.batch, weights=args.weights or notes.get("temper.weights"), lora=args.lora or notes.get("temper.lora"),
                      seed=int(notes.get("temper.seed", "0")), half=half, past=past)
    try:
        source = load(spec, options)
    except ExportError as error:
        raise Refusal(f"{spec}: {error}") from error
    if type(source).__name__ not in kinds:
        raise Refusal(f"{spec} is a model of {source.framework}, not of {engine}")
    return source


def fed(source, data):
    """The inputs under the names that the source has for them: by name, or in order where the names differ."""
    names = [port.name for port in source.inputs]
    if set(names) <= set(data):
        return {name: data[name] for name in names}
    if len(names) != len(data):
        raise Refusal(f"the source has the inputs {', '.join(names)}, the model {', '.join(data)}")
    return dict(zip(names, data.values()))


def load_torch(args, data):
    import torch

    gpu = gpu_of(args)
    torch.set_num_threads(args.threads)
    start = time.perf_counter()
    source = source_of(args, "PyTorch", ("PyTorchSource",))
    arrays = fed(source, data)
    types = {"fp32": None, "tf32": None, "bf16": torch.bfloat16, "fp16": torch.float16}
    if args.precision not in types:
        raise Refusal(f"{args.precision} is not compared with PyTorch")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = args.precision == "tf32"
    dtype = types[args.precision]
    device = torch.device("cpu" if gpu is None else f"cuda:{gpu}")
    source.module.to(device)
    tensors = [tensor.to(device) for tensor in source.tensors(arrays)]
    if dtype is not None:
        source.module.to(dtype)
        tensors = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors]
    if gpu is not None and any(tensor.ndim == 4 for tensor in tensors):  # as its convolutions are fastest
        source.module.to(memory_format=torch.channels_last)
        tensors = [tensor.to(memory_format=torch.channels_last) if tensor.ndim == 4 else tensor for tensor in tensors]
    torch.backends.cudnn.benchmark = gpu is not None
    seconds = time.perf_counter() - start
    last = [None]

    def call(module):
        last[0] = None  # a recorded graph writes over it
        last[0] = module(**{port.name: tensor for port, tensor in zip(source.inputs, tensors)}) if source.keywords else module(*tensors)

    def runner(module, mode=torch.inference_mode):
        def run():
            with mode():
                call(module)
            if gpu is not None:
                torch.cuda.synchronize(device)
        return run

    # By the GPU's clock, ten runs between two readings, as Temper's own times: else the host's launches would be in them.
    def clock_of(module, mode=torch.inference_mode):
        def times(count):
            taken = []
            with mode():
                while len(taken) < count:
                    calls = min(10, count - len(taken))
                    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    before.record()
                    for _ in range(calls):
                        call(module)
                    after.record()
                    after.synchronize()
                    taken += [before.elapsed_time(after) / calls] * calls
            return taken
        return times if gpu is not None and args.streams == 1 else None

    def least_of(run, times):
        run()
        if times:
            times(10)
            return min(times(30))
        taken = []
        for _ in range(5):
            begin = time.perf_counter()
            run()
            taken.append((time.perf_counter() - begin) * 1e3)
        return min(taken)

    # Both ways of PyTorch are tried: which is the faster depends on the model. On a GPU compiled code is recorded as a graph, with
    # weights that are constants of it, which it takes outside of inference mode alone.
    run, times, how = runner(source.module), clock_of(source.module), "eager"
    eager = least_of(run, times)
    if args.streams == 1:
        try:
            if gpu is None:
                ways = torch.compile(source.module), torch.inference_mode
            else:
                from torch._inductor import config as inductor
                inductor.freezing = True
                ways = torch.compile(source.module, mode="reduce-overhead"), torch.no_grad
            compiled = runner(*ways)
            for _ in range(3):  # records its graphs
                compiled()
            if least_of(compiled, clock_of(*ways)) < eager:
                run, times, how = compiled, clock_of(*ways), "torch.compile"
        except Exception as error:  # without a compiler, for a module that it does not take: eager it is
            how = f"eager; torch.compile: {type(error).__name__}"
            run()

    def outputs():
        from temper.export.pytorch import flatten
        return {name: tensor.detach().float().cpu().numpy() if tensor.is_floating_point() else tensor.cpu().numpy() for name, tensor in flatten(last[0])}

    return Loaded(torch.__version__.split("+")[0], seconds, [run] * args.streams, outputs, how, times)


def load_tensorflow(args, data):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    if gpu_of(args) is not None or args.precision != "fp32":
        raise Refusal("TensorFlow is compared on the CPU in fp32")
    tensorflow.config.threading.set_intra_op_parallelism_threads(args.threads)
    tensorflow.config.threading.set_inter_op_parallelism_threads(1)
    start = time.perf_counter()
    source = source_of(args, "TensorFlow", ("FunctionSource",))
    arrays = fed(source, data)
    function = tensorflow.function(source.function)
    tensors = [tensorflow.constant(arrays[port.name]) for port in source.inputs]
    seconds = time.perf_counter() - start
    last = [None]

    def run():
        last[0] = function(*tensors)
        for value in tensorflow.nest.flatten(last[0]):
            value.numpy()  # waits for it

    def outputs():
        answer = last[0]
        if not isinstance(answer, dict):
            answer = {f"output_{i}": value for i, value in enumerate(tensorflow.nest.flatten(answer))}
        return {name: value.numpy() for name, value in answer.items()}

    return Loaded(tensorflow.__version__, seconds, [run] * args.streams, outputs, "tf.function")


def load_litert(args, data):
    from ai_edge_litert.interpreter import Interpreter
    import importlib.metadata

    if gpu_of(args) is not None or args.precision != "fp32":
        raise Refusal("LiteRT is compared on the CPU in fp32")
    if not args.source.endswith(".tflite"):
        raise Refusal("LiteRT reads no ONNX: --source names the .tflite file that the model was made from")
    start = time.perf_counter()
    interpreters = []
    for _ in range(args.streams):
        interpreter = Interpreter(model_path=args.source, num_threads=args.threads)
        details = interpreter.get_input_details()
        if len(details) != len(data):
            raise Refusal(f"{args.source} has {len(details)} inputs, the model {len(data)}")
        for detail, array in zip(details, data.values()):
            interpreter.resize_tensor_input(detail["index"], array.shape)
        interpreter.allocate_tensors()
        for detail, array in zip(details, data.values()):
            interpreter.set_tensor(detail["index"], array)
        interpreters.append(interpreter)
    return Loaded(importlib.metadata.version("ai-edge-litert"), time.perf_counter() - start, [i.invoke for i in interpreters],
                  lambda: {f"output_{i}": interpreters[0].get_tensor(d["index"]) for i, d in enumerate(interpreters[0].get_output_details())})


# By the name that --with has for an engine: how it is loaded, the module that it takes, and what pip calls that.
ENGINES = {"onnxruntime": (load_onnxruntime, "onnxruntime", "onnxruntime"), "openvino": (load_openvino, "openvino", "openvino"),
           "torch": (load_torch, "torch", "torch"), "tensorflow": (load_tensorflow, "tensorflow", "tensorflow-cpu"),
           "litert": (load_litert, "ai_edge_litert", "ai-edge-litert")}


def read_inputs(path):
    """From an .npz file, or a .json file that has the .npy file of each input by name; in the order of the file."""
    import numpy
    if path.endswith(".npz"):
        return dict(numpy.load(path))
    with open(path) as file:
        return {name: numpy.ascontiguousarray(numpy.load(array)) for name, array in json.load(file).items()}


def timed(loaded, count):
    """`count` times in milliseconds."""
    if loaded.times:
        return loaded.times(count)
    if len(loaded.runs) == 1:
        run, times = loaded.runs[0], []
        for _ in range(count):
            start = time.perf_counter()
            run()
            times.append((time.perf_counter() - start) * 1e3)
        return times

    def work(run):
        for _ in range(count):
            run()

    threads = [threading.Thread(target=work, args=(run,)) for run in loaded.runs]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [(time.perf_counter() - start) * 1e3 / (count * len(threads))] * count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("model")
    parser.add_argument("input", help=".npz or .json: arrays by the names of inputs; their shapes are those that are run")
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--streams", type=int, default=1)
    parser.add_argument("--batch", type=int, help="samples of the inputs, where the source must know")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--source", default="", help="the model in its framework, as temper export has it")
    parser.add_argument("--weights", default="", help="of the source, as temper export has it")
    parser.add_argument("--lora", default="", help="of the source, as temper export has it")
    parser.add_argument("--precision", choices=["fp32", "tf32", "fp16", "bf16", "int8"], default="fp32",
                        help="int8: the model is a Q/DQ file")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")  # what engines print goes to standard error, and not between the answers
    os.dup2(2, 1)
    load, module, package = ENGINES[args.engine]
    try:
        data = read_inputs(args.input)
        interpreter = resident_peak_bytes()
        loaded = load(args, data)
    except ModuleNotFoundError as error:
        missing = {module: package}.get((error.name or "").split(".")[0], error.name)
        print(f"{missing} is not installed for {sys.executable}", file=sys.stderr)
        return NOT_HERE
    except Refusal as refusal:
        print(" ".join(str(refusal).split()), file=sys.stderr)
        return NOT_HERE
    start = time.perf_counter()
    for run in loaded.runs:
        run()
    first_run_ms = (time.perf_counter() - start) * 1e3 / len(loaded.runs)
    timed(loaded, 3)
    ready = {"name": args.engine, "version": loaded.version, "how": loaded.how, "load_s": loaded.seconds, "first_run_ms": first_run_ms,
             "peak_rss": resident_peak_bytes(), "interpreter_rss": interpreter}
    print("ready", json.dumps(ready), file=answers, flush=True)
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "output":
            import numpy
            with open(rest, "wb") as file:
                numpy.savez(file, **loaded.outputs())
            print('"saved"', file=answers, flush=True)
            continue
        print(json.dumps(timed(loaded, int(word))), file=answers, flush=True)
    return 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        sys.stderr.flush()
    os._exit(code)  # the ends of some frameworks take seconds
