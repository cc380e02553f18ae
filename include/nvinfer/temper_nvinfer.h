/* SPDX-License-Identifier: Apache-2.0 */
/* The functions behind NvInfer.h and NvOnnxParser.h: libtemper_nvinfer's own interface, which the classes of these
 * headers call. Programs use the classes.
 *
 * No exception leaves a function. What fails is a line of the log that the object was made with, and then the function
 * gives null or 0. Enumerations are TensorRT's numbers. Names and other texts live as long as the object they come
 * from. An object may be freed in any order with those it was made from; null may be freed. */
#ifndef TEMPER_NVINFER_H
#define TEMPER_NVINFER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TEMPER_NV_MAX_DIMS 8

/* Of the program: is called from any thread, with a severity of ILogger and a text that lives for the call. */
typedef struct temper_nv_log {
  void* self;
  void (*line)(void* self, int32_t severity, const char* text);
} temper_nv_log;

/* An input or output. dtype: a number of DataType; -1 in dims: open. */
typedef struct temper_nv_tensor {
  const char* name;
  int32_t dtype;
  int32_t rank;
  int64_t dims[TEMPER_NV_MAX_DIMS];
  int32_t is_input;
} temper_nv_tensor;

typedef struct temper_nv_bytes temper_nv_bytes;
const void* temper_nv_bytes_data(const temper_nv_bytes* bytes);
size_t temper_nv_bytes_size(const temper_nv_bytes* bytes);
void temper_nv_bytes_free(temper_nv_bytes* bytes);

/* `device` as in everything below: "cpu", "cuda:0"; "" or null: GPU 0, or the CPU where there is none. 1 where it
 * computes in that precision ("fp16", "int8", "tf32"). */
int32_t temper_nv_computes(const char* device, const char* precision, temper_nv_log log);

/* A network, which a parser fills, or the program layer by layer. Layers and tensors have numbers from 0 on, which they
 * keep. A number that is -1, and a count of -1, says that it failed. */
typedef struct temper_nv_network temper_nv_network;
/* `flags`: 1 << NetworkDefinitionCreationFlag, by the numbers of the release `api` (TEMPER_NVINFER_API). */
temper_nv_network* temper_nv_network_new(uint32_t flags, int32_t api, temper_nv_log log);
void temper_nv_network_free(temper_nv_network* network);
/* Reads a model's bytes, or where `path` is not null the file there. Where it is wrong: 0, a call of `error` for each
 * line, and the network is as before. */
int32_t temper_nv_network_parse(temper_nv_network* network, const void* bytes, size_t size, const char* path,
                                void* self, void (*error)(void* self, const char* text));
/* The same, and a call of `subgraph` for as many nodes that follow each other as are all read, or all not. */
int32_t temper_nv_network_judge(temper_nv_network* network, const void* bytes, size_t size, const char* path,
                                void* self, void (*error)(void* self, const char* text),
                                void (*subgraph)(void* self, const int64_t* nodes, int64_t count, int32_t is_read));
int32_t temper_nv_knows_operator(const char* name); /* 1: models may have it */
const char* temper_nv_network_name(const temper_nv_network* network);
void temper_nv_network_set_name(temper_nv_network* network, const char* name);
int32_t temper_nv_network_layers(const temper_nv_network* network);
int32_t temper_nv_network_inputs(const temper_nv_network* network);
int32_t temper_nv_network_outputs(const temper_nv_network* network);
/* The tensor that is the input, or output, of that index; -1 where there is none. */
int32_t temper_nv_network_input(const temper_nv_network* network, int32_t index);
int32_t temper_nv_network_output(const temper_nv_network* network, int32_t index);
/* A tensor; -1 in dims: open. */
int32_t temper_nv_network_add_input(temper_nv_network* network, const char* name, int32_t dtype, const int64_t* dims,
                                    int32_t rank);
/* `type`: TensorRT's word, "CONVOLUTION"; inputs are tensors. A layer; its settings are those of src/nvinfer/layers.cc.
 */
int32_t temper_nv_network_add_layer(temper_nv_network* network, const char* type, const int32_t* inputs, int32_t count);
/* Says in the log that something was asked of the network that is not there; builds fail from then on. */
void temper_nv_network_end_builds(temper_nv_network* network, const char* why);
/* 1 where it has an output. */
int32_t temper_nv_network_is_filled(const temper_nv_network* network);
int32_t temper_nv_network_mark(temper_nv_network* network, int32_t tensor, int32_t is_output);

/* Of a layer. Texts live until the next call for the network. */
const char* temper_nv_layer_name(temper_nv_network* network, int32_t layer);
const char* temper_nv_layer_type(temper_nv_network* network, int32_t layer);
int32_t temper_nv_layer_set_name(temper_nv_network* network, int32_t layer, const char* name);
int32_t temper_nv_layer_inputs(const temper_nv_network* network, int32_t layer);
int32_t temper_nv_layer_outputs(const temper_nv_network* network, int32_t layer);
int32_t temper_nv_layer_input(const temper_nv_network* network, int32_t layer, int32_t index);
int32_t temper_nv_layer_output(const temper_nv_network* network, int32_t layer, int32_t index);
int32_t temper_nv_layer_set_input(temper_nv_network* network, int32_t layer, int32_t index, int32_t tensor);
int32_t temper_nv_layer_set_ints(temper_nv_network* network, int32_t layer, const char* setting, const int64_t* values,
                                 int32_t count);
int32_t temper_nv_layer_set_reals(temper_nv_network* network, int32_t layer, const char* setting, const double* values,
                                  int32_t count);
int32_t temper_nv_layer_set_text(temper_nv_network* network, int32_t layer, const char* setting, const char* text);
/* The weights are copied. */
int32_t temper_nv_layer_set_weights(temper_nv_network* network, int32_t layer, const char* setting, int32_t dtype,
                                    const void* values, int64_t count);
int32_t temper_nv_layer_reset(temper_nv_network* network, int32_t layer, const char* setting);
/* How many there are, the first `room` of which are written; -1: none were set, nor follow. */
int32_t temper_nv_layer_ints(const temper_nv_network* network, int32_t layer, const char* setting, int64_t* values,
                             int32_t room);
int32_t temper_nv_layer_reals(const temper_nv_network* network, int32_t layer, const char* setting, double* values,
                              int32_t room);
const char* temper_nv_layer_text(temper_nv_network* network, int32_t layer, const char* setting); /* null: none */
/* 0: none. They live until they are set again. */
int32_t temper_nv_layer_weights(const temper_nv_network* network, int32_t layer, const char* setting, int32_t* dtype,
                                const void** values, int64_t* count);

/* Of a tensor. 0, with an error in the log, where a layer before it does not hold; its name and `is_input` are right
 * even then. The name lives until the next call for the network. */
int32_t temper_nv_tensor_describe(temper_nv_network* network, int32_t tensor, temper_nv_tensor* out);
const char* temper_nv_tensor_name(temper_nv_network* network, int32_t tensor);
int32_t temper_nv_tensor_is_input(const temper_nv_network* network, int32_t tensor);
int32_t temper_nv_tensor_is_output(const temper_nv_network* network, int32_t tensor);
int32_t temper_nv_tensor_set_name(temper_nv_network* network, int32_t tensor, const char* name);
int32_t temper_nv_tensor_set_type(temper_nv_network* network, int32_t tensor, int32_t dtype); /* -1: its own again */
int32_t temper_nv_tensor_is_type_set(const temper_nv_network* network, int32_t tensor);
int32_t temper_nv_tensor_set_dims(temper_nv_network* network, int32_t tensor, const int64_t* dims, int32_t rank);
int32_t temper_nv_tensor_name_dim(temper_nv_network* network, int32_t tensor, int32_t axis, const char* name);
const char* temper_nv_tensor_dim_name(temper_nv_network* network, int32_t tensor, int32_t axis); /* null: it has none */

/* Measured times, which builds read and extend. Of what is no such text, as of none: an empty one, with a warning. */
typedef struct temper_nv_timings temper_nv_timings;
temper_nv_timings* temper_nv_timings_new(const void* text, size_t size, temper_nv_log log);
void temper_nv_timings_free(temper_nv_timings* timings);
void temper_nv_timings_add(temper_nv_timings* timings, const temper_nv_timings* other);
temper_nv_bytes* temper_nv_timings_bytes(const temper_nv_timings* timings);

/* Of the program. */
typedef struct temper_nv_calibrator {
  void* self;
  int32_t algorithm;                                   /* a number of CalibrationAlgoType */
  const void* (*read_cache)(void* self, size_t* size); /* null or no size: there is none */
  void (*write_cache)(void* self, const void* cache, size_t size);
  /* The addresses of the next batch, by the names of the inputs; 0: there are no more. */
  int32_t (*batch)(void* self, void** addresses, const char** names, int32_t count);
} temper_nv_calibrator;

/* Of the program: phases of a build, inside each other; `parent` is null for the outermost. */
typedef struct temper_nv_monitor {
  void* self;
  void (*phase_start)(void* self, const char* phase, const char* parent, int32_t steps);
  int32_t (*step_complete)(void* self, const char* phase, int32_t step); /* 0 ends the build */
  void (*phase_finish)(void* self, const char* phase);
} temper_nv_monitor;

typedef struct temper_nv_range {
  int32_t profile; /* from 0 on; -1: its optimum is the shape of a calibrator's batches */
  const char* input;
  int32_t rank;
  int64_t min[TEMPER_NV_MAX_DIMS], opt[TEMPER_NV_MAX_DIMS], max[TEMPER_NV_MAX_DIMS];
} temper_nv_range;

typedef struct temper_nv_config {
  const char* device;
  int32_t guarded;                          /* a calibrator's addresses, as in temper_nv_engine_load() */
  uint32_t flags;                           /* 1 << BuilderFlag, by the numbers of the release `api` */
  int32_t api;                              /* TEMPER_NVINFER_API */
  int32_t runs_on_dla;                      /* not 0: that was asked for */
  int32_t capability;                       /* a number of EngineCapability */
  int32_t hardware_compatibility, platform; /* of HardwareCompatibilityLevel and RuntimePlatform */
  int64_t workspace;                        /* bytes; -1: no limit */
  const temper_nv_range* ranges;
  int32_t range_count, profile_count;
  temper_nv_timings* timings;             /* null: none is kept */
  const temper_nv_calibrator* calibrator; /* null: the model has its quantization in it */
  const temper_nv_monitor* monitor;       /* null: nobody is told */
} temper_nv_config;

/* A plan. */
temper_nv_bytes* temper_nv_build(const temper_nv_network* network, const temper_nv_config* config, temper_nv_log log);

/* Of a plan's bytes, which are copied. With the device "cpu" plans of GPUs are refused. `guarded`: not 0 where all
 * memory of the program is from temper_nv_host_allocate(); a run then refuses other addresses. */
typedef struct temper_nv_engine temper_nv_engine;
temper_nv_engine* temper_nv_engine_load(const void* plan, size_t size, const char* device, int32_t guarded,
                                        temper_nv_log log);
void temper_nv_engine_free(temper_nv_engine* engine);
int32_t temper_nv_engine_tensors(const temper_nv_engine* engine);
/* Inputs, then outputs; 0 for an index that there is not. */
int32_t temper_nv_engine_tensor(const temper_nv_engine* engine, int32_t index, temper_nv_tensor* tensor);
int32_t temper_nv_engine_index(const temper_nv_engine* engine, const char* name); /* -1: no tensor */
int32_t temper_nv_engine_profiles(const temper_nv_engine* engine);
/* The shape of an input in a profile; `which`: a number of OptProfileSelector. 0 where there is none. */
int32_t temper_nv_engine_profile_shape(const temper_nv_engine* engine, const char* name, int32_t profile, int32_t which,
                                       int64_t dims[TEMPER_NV_MAX_DIMS], int32_t* rank);
int32_t temper_nv_engine_layers(const temper_nv_engine* engine);
const char* temper_nv_engine_name(const temper_nv_engine* engine);
temper_nv_bytes* temper_nv_engine_bytes(const temper_nv_engine* engine, temper_nv_log log);
int32_t temper_nv_engine_is_refittable(const temper_nv_engine* engine);

/* Replaces weights of an engine that was built to be refitted (1 << BuilderFlag::kREFIT); null for another. */
typedef struct temper_nv_refitter temper_nv_refitter;
temper_nv_refitter* temper_nv_refitter_new(temper_nv_engine* engine, temper_nv_log log);
void temper_nv_refitter_free(temper_nv_refitter* refitter);
/* role: a number of WeightsRole. Texts live as long as the refitter. 0 for an index that there is not. */
typedef struct temper_nv_weights {
  const char *name, *layer;
  int32_t role, dtype;
  int64_t count;
} temper_nv_weights;
int32_t temper_nv_refitter_weights(const temper_nv_refitter* refitter, int32_t index, temper_nv_weights* out);
/* The values are copied. */
int32_t temper_nv_refitter_set(temper_nv_refitter* refitter, const char* name, int32_t dtype, const void* values,
                               int64_t count);
/* Builds the engine again: it and its contexts have the new weights from then on, beginning with their next run. */
int32_t temper_nv_refitter_run(temper_nv_refitter* refitter);

/* Of the program: memory of the device that a context works in, in the place of Temper's own. Null ends the run. */
typedef struct temper_nv_memory {
  void* self;
  void* (*allocate)(void* self, uint64_t size, uint64_t alignment);
  void (*release)(void* self, void* memory);
} temper_nv_memory;

/* For one thread at a time. `memory`: null for Temper's own. */
typedef struct temper_nv_context temper_nv_context;
temper_nv_context* temper_nv_context_new(const temper_nv_engine* engine, const temper_nv_memory* memory,
                                         temper_nv_log log);
void temper_nv_context_free(temper_nv_context* context);
int32_t temper_nv_context_tensor(const temper_nv_context* context, int32_t index, temper_nv_tensor* tensor);
/* From now on inputs take shapes of it, and open ones have none; 0 where there is no such profile. It is 0 at first. */
int32_t temper_nv_context_set_profile(temper_nv_context* context, int32_t profile);
int32_t temper_nv_context_profile(const temper_nv_context* context);
int32_t temper_nv_context_set_shape(temper_nv_context* context, const char* name, const int64_t* dims, int32_t rank);
/* As it is set, or follows from what is. 0 for a name that is no tensor. */
int32_t temper_nv_context_shape(const temper_nv_context* context, const char* name, int64_t dims[TEMPER_NV_MAX_DIMS],
                                int32_t* rank);
/* How many inputs lack a shape; the first `room` of their names are written to `names`. */
int32_t temper_nv_context_without_shape(const temper_nv_context* context, const char** names, int32_t room);
int32_t temper_nv_context_set_address(temper_nv_context* context, const char* name, const void* address);
void* temper_nv_context_address(const temper_nv_context* context, const char* name);
/* In the order of `stream` of the GPU, without waiting; with `waits` not 0 there is none, and it waits. On a CPU it has
 * run when it returns. */
int32_t temper_nv_context_run(temper_nv_context* context, void* stream, int32_t waits);

/* Of the program: memory for an output, at least `size` bytes; null ends the run. */
typedef struct temper_nv_allocator {
  void* self;
  void* (*reallocate)(void* self, const char* name, void* current, uint64_t size, uint64_t alignment, void* stream);
  void (*notify_shape)(void* self, const char* name, const int64_t* dims, int32_t rank);
} temper_nv_allocator;
/* In the place of the output's address; null: no longer. 0 for a name that is no output. */
int32_t temper_nv_context_set_allocator(temper_nv_context* context, const char* name,
                                        const temper_nv_allocator* allocator);
/* The most that an output takes; -1: it depends on data, or there is no such output. */
int64_t temper_nv_context_max_output_bytes(const temper_nv_context* context, const char* name);
/* From now on runs wait for themselves and are timed layer by layer; null: no longer. */
void temper_nv_context_set_layer_times(temper_nv_context* context, void* self,
                                       void (*told)(void* self, const char* layer, float ms));
/* 0: layers are told by temper_nv_context_report_layers() alone, which gives 0 where no run was timed. */
void temper_nv_context_tell_layers_at_once(temper_nv_context* context, int32_t at_once);
int32_t temper_nv_context_report_layers(temper_nv_context* context);

/* What an engine's layers are, in TensorRT's form of JSON, or a line each. */
typedef struct temper_nv_inspector temper_nv_inspector;
temper_nv_inspector* temper_nv_inspector_new(const temper_nv_engine* engine, temper_nv_log log);
void temper_nv_inspector_free(temper_nv_inspector* inspector);
/* Of a layer (-1: of all), as it runs on the shapes that `context` has (null: the first of the engine's plans).
 * `format`: a number of LayerInformationFormat. The text lives until the next call. */
const char* temper_nv_inspector_describe(temper_nv_inspector* inspector, const temper_nv_context* context,
                                         int32_t layer, int32_t format);

/* Memory of the host that a program takes for a GPU's (host/cuda_runtime_api.h). Everything is looked up before it is
 * read or written. `pinned`: the program knows it as the host's. */
void* temper_nv_host_allocate(size_t size, int32_t pinned); /* null: there is no room */
/* 0 where `memory` is no such allocation. `beyond`: bytes that were written behind its end. */
int32_t temper_nv_host_free(void* memory, int32_t pinned, size_t* beyond);
/* `to_end`, `from_end`: 0: of the host; 1: in an allocation that is not pinned; 2: whichever it is. 0 where a byte is
 * not there. */
int32_t temper_nv_host_copy(void* to, int32_t to_end, const void* from, int32_t from_end, size_t size);
int32_t temper_nv_host_set(void* memory, int32_t value, size_t size);

#ifdef __cplusplus
}
#endif
#endif
