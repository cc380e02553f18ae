/* SPDX-License-Identifier: Apache-2.0 */
/* Temper from C: load a plan or build one from ONNX, run it.
 *
 * Every function that can fail returns a status; temper_last_error() then says what, where and what to do next, and
 * what the function would have given is untouched. Nothing here prints, exits or throws. An engine is immutable and may
 * be shared by threads; a session belongs to one thread at a time.
 *
 * All of it is in libtemper, and all but the building of engines and timings in libtemper_runtime. Of the static
 * libraries, temper_runtime has all but those and the pictures, which need temper_build as well.
 *
 * With an engine of a GPU, a thread has the same current CUDA context after a call as before it. */
#ifndef TEMPER_C_H
#define TEMPER_C_H
#include <stddef.h>
#include <stdint.h>

/* In C++, too, any int may be given for an enumeration: one that is no member is refused. */
#ifdef __cplusplus
#define TEMPER_ENUM : int
extern "C" {
#else
#define TEMPER_ENUM
#endif

/* The same numbers as the exit codes of the program. */
typedef enum TEMPER_ENUM {
  TEMPER_OK = 0,
  TEMPER_CHECK_FAILED = 1, /* a limit or a comparison was not met */
  TEMPER_USAGE = 2,        /* wrong arguments: name, dtype, shape, NULL */
  TEMPER_BAD_FILE = 3,     /* missing, damaged or not what it should be */
  TEMPER_UNSUPPORTED = 4,  /* not implemented exactly, or made for another machine or version */
  TEMPER_MACHINE = 5,      /* out of memory, disk full, device failure */
  TEMPER_CANCELLED = 6     /* the caller's function asked for the end; no exit code of the program */
} temper_status;

typedef enum TEMPER_ENUM {
  TEMPER_F32,
  TEMPER_F16,
  TEMPER_BF16,
  TEMPER_F64,
  TEMPER_I8,
  TEMPER_U8,
  TEMPER_I16,
  TEMPER_U16,
  TEMPER_I32,
  TEMPER_U32,
  TEMPER_I64,
  TEMPER_U64,
  TEMPER_BOOL, /* one byte, 0 or 1 */
  /* Types that models only store, one element in a byte. An I4 or I2 is a signed byte; of the others the byte has the
     code in its low bits and 0 above. */
  TEMPER_F8E4M3FN,
  TEMPER_F8E4M3FNUZ,
  TEMPER_F8E5M2,
  TEMPER_F8E5M2FNUZ,
  TEMPER_F8E8M0,
  TEMPER_F4E2M1,
  TEMPER_I4,
  TEMPER_U4,
  TEMPER_I2,
  TEMPER_U2,
  TEMPER_STRING /* const char*, zero-terminated UTF-8; see temper_tensor */
} temper_dtype;

typedef struct temper_engine temper_engine;
typedef struct temper_session temper_session;

/* Row-major elements that somebody else owns. `data` may be NULL where there are none (a dimension is 0). Of
 * TEMPER_STRING it has the addresses of strings: those of an input are read by the call that takes them, those of an
 * output stay until the session's next call. Only temper_session_run takes and gives strings. */
typedef struct {
  temper_dtype dtype;
  size_t rank;
  const int64_t* dims;
  const void* data;
} temper_tensor;

/* The type of an input or output; a dimension is -1 where it may vary. Valid as long as the engine. */
typedef struct {
  const char* name;
  temper_dtype dtype;
  size_t rank;
  const int64_t* dims;
} temper_port;

/* The shapes that an input may have: anything from min to max, and opt is what speed is measured for. Each has `rank`
 * dimensions; all three equal for a fixed shape. */
typedef struct {
  const char* input;
  size_t rank;
  const int64_t* min;
  const int64_t* opt;
  const int64_t* max;
} temper_shape_range;

/* Several ranges that belong together: one for each input that leaves dimensions open. */
typedef struct {
  const temper_shape_range* shapes;
  size_t shape_count;
} temper_shape_profile;

/* Bytes that Temper made and the caller frees. A 0 that is not counted stands behind them, so that text is a string. */
typedef struct temper_bytes temper_bytes;

/* NULL and 0 for NULL. Valid until they are freed. */
const void* temper_bytes_data(const temper_bytes* bytes);
size_t temper_bytes_size(const temper_bytes* bytes);
void temper_bytes_free(temper_bytes* bytes); /* NULL is allowed */

/* Measured times in memory: what a timing cache file holds. Builds of several threads may use them at once. */
typedef struct temper_timings temper_timings;

/* The function that a build tells how far it is, with a line of text now and then, from the thread that builds. What it
 * returns that is not 0 ends the build (TEMPER_CANCELLED), within the time that one measurement takes. It must not
 * throw. */
typedef int (*temper_progress)(const char* text, void* context);

/* Set it to zero first (= {0}): zero is always the default, and fields may be added. */
typedef struct {
  const char* device;       /* NULL: "cpu" */
  const char* precision;    /* as --precision of `temper build`; NULL: "fp32" */
  const char* calibration;  /* file of ranges from `temper calibrate`, for "int8", "int8+fp16" and the like, "fp16";
                               NULL: none */
  const char* timing_cache; /* file of measured times, read and extended; NULL: none */
  int threads;              /* 0: all that the process may use */
  const temper_shape_range* shapes; /* of inputs that leave dimensions open; an open batch without a range means 1 */
  size_t shape_count;
  int64_t memory_limit; /* bytes that the model may take; 0: by its size, as for temper build --memory-limit */
  double time_limit;    /* seconds that the search for one shape's plan may take; 0: 120 */
  /* Instead of `shapes`: several sets of ranges. The engine takes shapes that one of them holds, and is tuned for all.
   */
  const temper_shape_profile* profiles;
  size_t profile_count;
  temper_timings* timings;  /* instead of `timing_cache`: read, and extended where the build succeeds */
  temper_progress progress; /* NULL: nobody is told */
  void* progress_context;   /* what `progress` is given */
  void* cuda_context;       /* of an engine of a GPU; see temper_load_options */
  int no_measure;           /* not 0: each step takes the first kernel that can compute it, and none is timed */
  /* How pictures become the input of a model that takes them, for the plan to remember, as --preprocess of `temper
   * build` says it (a preset, words, or a file); NULL: as the ranges or the model have it. */
  const char* preprocess;
  /* Not 0: the plan takes pictures as they are, u8 of [batch, height, width, channels], where the model takes floats.
   * Scale, mean, std and layout are steps of the plan then. Shapes are given as the model has them. TEMPER_USAGE where
   * no input takes pictures. */
  int input_pictures;
  /* Limits of what a model may ask for (docs/limits.md); 0: as given here. */
  int64_t node_limit;  /* nodes, each function in the place of its calls; 1,000,000 */
  int64_t depth_limit; /* functions and subgraphs inside one another; 32, at most 256 */
  int64_t loop_limit;  /* iterations of a loop, each time that it runs; 16,777,216 */
  double build_limit;  /* seconds that the whole build may take, then TEMPER_CHECK_FAILED; 0: as long as it takes */
} temper_build_options;

/* "0.1.0" */
const char* temper_version(void);

/* The message of the last call in this thread that failed; valid until the next one that fails. Never NULL. */
const char* temper_last_error(void);

/* Bytes of an element; 0 for what is no dtype. */
size_t temper_dtype_size(temper_dtype dtype);

typedef enum TEMPER_ENUM { TEMPER_DEBUG, TEMPER_INFO, TEMPER_WARNING } temper_log_level;
typedef void (*temper_log_callback)(temper_log_level level, const char* message, void* context);

/* Sets where messages go, from any thread; NULL: nowhere, the default. It is for the whole process: set it before other
 * threads call Temper. The callback must not throw. */
void temper_set_log_callback(temper_log_callback callback, void* context);

/* A plan file. TEMPER_UNSUPPORTED, with the command that builds it again, for one of another version or machine. The
 * file is read into memory: it may be replaced, rewritten or deleted afterwards, and changes nothing for the engine. A
 * plan is to be trusted like a program: it holds the weights, and for a GPU machine code. */
temper_status temper_engine_load(const char* plan_path, temper_engine** engine);

/* Set it to zero first (= {0}): zero is always the default, and fields may be added. */
typedef struct {
  /* Not 0: the file is mapped instead of read, so that processes share its pages, and memory is taken for what is used.
   * Then nobody may write to the file or cut it before the engine and its sessions are freed: a file that is cut ends
   * the process by the signal SIGBUS, and one that is rewritten in place changes the answers. Replacing it by rename,
   * as temper_engine_save and `temper build` do, and deleting it are safe. */
  int map_file;
  /* For an engine of a GPU: a CUcontext of it in which the engine works, for callers whose memory and streams lie in
   * one of their own making. It must outlive the engine and its sessions. NULL: the primary context, that of the CUDA
   * runtime. */
  void* cuda_context;
  /* The device that it is to run on, of the kind that the plan was built for: "cuda:1" for a plan of "cuda:0", which
   * must be the same GPU by its fingerprint. NULL: the one that the plan names. TEMPER_USAGE for another kind. */
  const char* device;
} temper_load_options;

/* The same; `options` may be NULL. */
temper_status temper_engine_load_with(const char* plan_path, const temper_load_options* options,
                                      temper_engine** engine);

/* The same of a plan's bytes in memory, of any alignment, which are copied. TEMPER_USAGE for `map_file`. */
temper_status temper_engine_load_bytes(const void* plan, size_t size, const temper_load_options* options,
                                       temper_engine** engine);

/* Imports, optimises and measures: seconds to minutes. `options` may be NULL. */
temper_status temper_engine_build(const char* onnx_path, const temper_build_options* options, temper_engine** engine);

/* The same of an ONNX model's bytes, which are not needed afterwards. TEMPER_BAD_FILE for one whose weights lie in
 * files beside it: there is no folder to look in. */
temper_status temper_engine_build_bytes(const void* onnx, size_t size, const temper_build_options* options,
                                        temper_engine** engine);

/* Times that a build may start with: the bytes of temper_timings_save_bytes, or of a timing cache file. No bytes: none.
 * TEMPER_BAD_FILE for what is neither, TEMPER_UNSUPPORTED for those of a later version. Those of other machines are
 * kept and not used. */
temper_status temper_timings_create(const void* bytes, size_t size, temper_timings** timings);
void temper_timings_free(temper_timings* timings); /* NULL is allowed; builds that use them go on */

/* Takes what `other` holds; of what both know, the time that was taken on the quieter machine, then the later one. */
temper_status temper_timings_add(temper_timings* timings, const temper_timings* other);

/* JSON, as a timing cache file has it. */
temper_status temper_timings_save_bytes(const temper_timings* timings, temper_bytes** bytes);

/* Writes a plan file; what was there before stays if that fails. TEMPER_USAGE where that is a file that the engine was
 * loaded or built from (model, external data, ranges), or anything but a plan. Symbolic links are followed. */
temper_status temper_engine_save(const temper_engine* engine, const char* plan_path);

/* The same, and a file of another kind is replaced, too; never one that the engine was loaded or built from. */
temper_status temper_engine_save_over(const temper_engine* engine, const char* plan_path);

/* The bytes of the file that temper_engine_save would write. */
temper_status temper_engine_save_bytes(const temper_engine* engine, temper_bytes** plan);

/* Describes what the engine holds, with every step and its kernel, as JSON: the text of `temper inspect --layers
 * --json`. */
temper_status temper_engine_describe(const temper_engine* engine, temper_bytes** json);

/* Sessions made from it keep working. NULL is allowed. */
void temper_engine_free(temper_engine* engine);

/* Limits what is kept for shapes that come at run time; what was used last is kept. A shape that was let
 * go is planned (or made ready) again when it comes again. The latest is always kept, and so are the plans that the
 * engine was built or loaded with, which are not counted. 0: the default, which is given behind each. Bytes are of the
 * host's memory. */
typedef struct {
  int64_t plans;          /* of an engine; 128 */
  int64_t plan_bytes;     /* 256 MiB */
  int64_t prepared;       /* shapes that each session is ready for; 128 */
  int64_t prepared_bytes; /* of each session, with an estimate of what its kernels take; 256 MiB */
} temper_shape_limits;

/* From now on, also for sessions that exist (with their next new shape). Threads may use the engine meanwhile. */
temper_status temper_engine_set_limits(temper_engine* engine, const temper_shape_limits* limits);

typedef struct {
  int64_t plans;      /* held now, with those that it was built or loaded with */
  int64_t plan_bytes; /* of those made since */
  int64_t plans_made; /* for shapes that came at run time; each takes milliseconds and more */
  int64_t evictions;  /* plans let go by the limits */
} temper_engine_statistics;

temper_status temper_engine_read_statistics(const temper_engine* engine, temper_engine_statistics* statistics);

/* The device and precision of an engine; the text is valid as long as the engine. */
typedef struct {
  const char* device;   /* where it runs: "cpu", "cuda:0" */
  const char* machine;  /* the fingerprint of the machine that its plans were measured on */
  int threads;          /* that one run takes, of a CPU */
  size_t profile_count; /* sets of ranges; at least 1 */
  size_t bucket_count;  /* sets of shapes that it was tuned for, by rising dimensions; more are planned as they come */
} temper_engine_info;

temper_status temper_engine_read_info(const temper_engine* engine, temper_engine_info* info);

/* Gives the shapes that input `input` may have in profile `profile`; -1 in min, opt and max where nothing limits a
 * dimension. Valid as long as the engine. */
temper_status temper_engine_profile(const temper_engine* engine, size_t profile, size_t input,
                                    temper_shape_range* range);

/* Input `input` in bucket `bucket`: a shape that the engine was tuned for, with no -1. Valid as long as the engine. */
temper_status temper_engine_bucket(const temper_engine* engine, size_t bucket, size_t input, temper_port* port);

/* 0 for NULL. */
size_t temper_engine_input_count(const temper_engine* engine);
size_t temper_engine_output_count(const temper_engine* engine);
temper_status temper_engine_input(const temper_engine* engine, size_t index, temper_port* port);
temper_status temper_engine_output(const temper_engine* engine, size_t index, temper_port* port);

/* The dimensions of output `index` for inputs of these shapes, without planning or running anything: `dims` gets as
 * many as temper_engine_output says, -1 for one that depends on data. `data` of the inputs is not read. TEMPER_USAGE
 * for shapes that the engine does not take. */
temper_status temper_engine_output_dims(const temper_engine* engine, const temper_tensor* inputs, size_t count,
                                        size_t index, int64_t* dims);

/* Whether requests may be joined to one batch: `independent` gets 1 where the first dimension of every input and output
 * is one and the same open dimension, and the model is known to compute each sample by itself, whatever lies beside it;
 * 0 where that is not known. */
temper_status temper_engine_samples_are_independent(const temper_engine* engine, int* independent);

temper_status temper_session_create(const temper_engine* engine, temper_session** session);
void temper_session_free(temper_session* session); /* NULL is allowed */

typedef struct {
  int64_t runs;
  int64_t plans_made;     /* for shapes that the engine had no plan for */
  int64_t prepared;       /* shapes that it is ready for */
  int64_t prepared_bytes; /* of those, with an estimate of what the kernels take */
  int64_t evictions;      /* shapes let go by the limits */
} temper_session_statistics;

temper_status temper_session_read_statistics(const temper_session* session, temper_session_statistics* statistics);

/* An output of a run that is an input of the next, by their names. */
typedef struct {
  const char* input;
  const char* output;
} temper_state;

/* The state of a model that is run on one piece of a stream after the other, which the session keeps from now on, in
 * place of what it kept before; 0 states: it keeps none. A state begins with zeros. A run takes it where `data` of its
 * input is NULL, and reads neither dtype nor dims of that input; other `data` are the value from which it goes on. A
 * run gives no memory to such an output: it stays in the session, on a GPU in the GPU's memory, and is copied where
 * temper_session_output asks for it. The first state has the shape that the engine fixes; what that leaves open is as
 * other inputs have it, then what the engine is tuned for. TEMPER_USAGE for an unknown name, for one that is in two
 * states, and for an output that cannot be that input. */
temper_status temper_session_keep_state(temper_session* session, const temper_state* states, size_t count);

/* States begin again, with zeros. */
temper_status temper_session_reset_state(temper_session* session);

/* A session of the same engine that goes on from copies of the states, as for several answers to one beginning.
 * temper_session_free frees it. */
temper_status temper_session_fork(temper_session* session, temper_session** fork);

/* Makes everything ready for these shapes, so that a run only runs; `data` of the inputs is not read, but that a
 * state's is NULL where a run takes what is kept. */
temper_status temper_session_prepare(temper_session* session, const temper_tensor* inputs, size_t count);

/* Inputs in the engine's order. Prepares first where the shapes are new. */
temper_status temper_session_run(temper_session* session, const temper_tensor* inputs, size_t count);

/* Memory of the session's own for input `index` of the shapes that were prepared last, for callers that gather inputs:
 * given to a run of these shapes it is not copied on the host; of a GPU it is pinned. It holds what was written there
 * until other shapes are prepared, and is then no longer valid. TEMPER_USAGE before a prepare, and for state. */
temper_status temper_session_input(temper_session* session, size_t index, void** data);

/* Begins a run, and prepares first where the shapes are new. `outputs`, in the engine's order, say where the outputs
 * are to be written, with the dtypes and dimensions that these inputs give them, and NULL as `data` of state; NULL, and
 * 0: into memory of the session's. temper_session_output gives them after temper_session_wait. Until then inputs and
 * outputs must stay, and the session takes no other call but wait and free. On a GPU this returns when the work is in
 * its queue. On a CPU, with state, and for a model whose shapes depend on data, the run is done when this returns;
 * temper_session_wait is to be called all the same. */
temper_status temper_session_enqueue(temper_session* session, const temper_tensor* inputs, size_t count,
                                     const temper_tensor* outputs, size_t output_count);

/* Returns when the run that was enqueued is done; its error, where it failed. TEMPER_USAGE where none was. */
temper_status temper_session_wait(temper_session* session);

/* Runs as temper_session_run does, for an engine of a GPU ("cuda:0") with inputs that lie in that GPU's memory: `data`
 * are its addresses, of its primary context (that of the CUDA runtime), however aligned. Outputs lie there, too.
 * Nothing passes through the host's memory. Inputs that come for a second time are read where they lie; new ones, those
 * not aligned to 256 bytes and those that share memory are copied on the GPU. Returns when all is done. What writes the
 * inputs must be done by then, or the session's stream must wait for it. TEMPER_USAGE for an engine of another device,
 * TEMPER_UNSUPPORTED for a model in which shapes depend on data. */
temper_status temper_session_run_on_device(temper_session* session, const temper_tensor* inputs, size_t count);

/* Set it to zero first (= {0}): zero is always the default, and fields may be added. */
typedef struct {
  /* Where the outputs go, in the engine's order, with the dtypes and dimensions that these inputs give them; `data` are
   * addresses of the GPU that are written, and NULL for outputs that are state. NULL, and 0: they stay where the plan
   * leaves them, until the session's next call. */
  const temper_tensor* outputs;
  size_t output_count;
  /* Not 0: the run is put into `stream`, in its order, and the call returns without waiting: what was put into the
   * stream before is done when the run begins, and what is put in afterwards finds the outputs. Buffers must stay until
   * then. What only shows while the work is done (an index out of range) is the error of a later call that waits. While
   * the stream is captured, the run becomes part of the caller's graph, launch by launch; then a run on these shapes
   * must have come before, and the session must stay and take no larger shapes while that graph is used. */
  int in_stream;
  void* stream; /* a CUstream of the engine's context; NULL is its default stream. Without in_stream: not read */
} temper_device_run;

/* The same; `how` may be NULL. */
temper_status temper_session_run_on_device_with(temper_session* session, const temper_tensor* inputs, size_t count,
                                                const temper_device_run* how);

/* The CUstream that the runs of this session are put into, for cuStreamWaitEvent. TEMPER_USAGE for an engine of another
 * device than a GPU. */
temper_status temper_session_stream(temper_session* session, void** stream);

typedef enum TEMPER_ENUM { TEMPER_TO_HOST, TEMPER_TO_DEVICE, TEMPER_ON_DEVICE } temper_copy_direction;

/* For an engine of a GPU: copies `bytes` between the host's memory and the GPU's, or inside the latter, behind all that
 * the session was asked for, and returns when that is done. TEMPER_USAGE for an engine of another device. */
temper_status temper_session_copy(temper_session* session, void* to, const void* from, size_t bytes,
                                  temper_copy_direction direction);

/* Gives an output of the last run, which must have succeeded; valid until the session's next call but this and
 * temper_session_copy. */
temper_status temper_session_output(const temper_session* session, size_t index, temper_tensor* output);

/* Several devices that run batches of one model, each with a session and a thread. One thread at a time may call it. */
typedef struct temper_pool temper_pool;

/* `devices`: names with commas between, as --device of `temper run` has them: "cuda:0,1", "cuda:*" (every GPU of the
 * machine), "cpu,cpu". The engine runs on its own device, and the others, which must be equal to that (by fingerprint),
 * load its plans; all work in primary contexts. A GPU whose memory has no room even to open it is left out, with a
 * warning (temper_set_log_callback). TEMPER_USAGE for what is no list, a GPU that is named twice or not there, and a
 * device of another kind; TEMPER_UNSUPPORTED for one that is not equal; TEMPER_MACHINE where all were left out. The
 * engine may be freed before the pool. */
temper_status temper_pool_create(const temper_engine* engine, const char* devices, temper_pool** pool);
void temper_pool_free(temper_pool* pool); /* NULL is allowed */

/* 0 for NULL. */
size_t temper_pool_device_count(const temper_pool* pool);

/* `device` is valid as long as the pool, `loss` until its next run. */
typedef struct {
  const char* device; /* "cuda:1" */
  int64_t batches;    /* that it has run, in all */
  const char* loss;   /* why it gets no more work; NULL: it works */
} temper_pool_device_info;

temper_status temper_pool_device(const temper_pool* pool, size_t index, temper_pool_device_info* info);

/* The function that gets the outputs of each batch, in the engine's order, from the thread that called temper_pool_run
 * and in the order of the batches, once each. They are valid until it returns. What it returns that is not 0 ends the
 * run (TEMPER_CANCELLED); batches behind are then not begun, or their outputs are dropped. It must not throw, nor call
 * this pool. */
typedef int (*temper_pool_use)(size_t batch, const temper_tensor* outputs, size_t count, void* context);

/* Runs `batch_count` batches. `inputs` are those of the first batch, in the engine's order, then those of the second
 * and so on: batch_count times temper_engine_input_count. They lie in the host's memory and stay as they are until this
 * returns; batches may be of different shapes, which are checked before any runs. Whichever device is free takes the
 * next batch; the outputs are, bit for bit, those of one device.
 *
 * Where a GPU is lost, or the plan has no room there, its batch goes to another device, a warning names it, and it gets
 * nothing any more, in later runs neither. TEMPER_MACHINE, with the reasons, where none is left. Another error of a
 * batch is that of this call, when the outputs of all batches before it were given; the pool may be used again. */
temper_status temper_pool_run(temper_pool* pool, const temper_tensor* inputs, size_t batch_count, temper_pool_use use,
                              void* context);

/* How a picture becomes one sample of an input. Set it to zero first (= {0}): zero is what `temper run` does, which is
 * ImageNet's usual evaluation for large square inputs of three channels, and a plain resize for others. */
enum { TEMPER_STRETCH = -1 };
typedef struct {
  int64_t resize; /* the short side, in pixels; TEMPER_STRETCH: to the crop's size, whatever its shape */
  int64_t crop_height, crop_width; /* the centre that the model sees; 0: its own height and width */
  const double* mean;              /* of red, green, blue: (pixel * scale - mean) / std; NULL: ImageNet's */
  const double* std;
  double scale; /* 0: 1/255 */
  int bgr;      /* not 0: the model takes blue first */
  int bicubic;  /* not 0: instead of bilinear; both antialiased */
} temper_preprocessing;

/* Channels, height and width, in the order that the input has them. `preprocessing` may be NULL. */
temper_status temper_picture_dims(const temper_engine* engine, size_t input, const temper_preprocessing* preprocessing,
                                  int64_t dims[3]);

/* A JPEG, PNG, WebP, BMP, TIFF or PNM file as one sample, of the input's dtype: temper_picture_dims' elements, `bytes`
 * in all. */
temper_status temper_picture_read(const temper_engine* engine, size_t input, const temper_preprocessing* preprocessing,
                                  const char* path, void* data, size_t bytes);

/* The same of such a file's bytes in memory, as they come over a network. TEMPER_BAD_FILE for what is no picture. */
temper_status temper_picture_decode(const temper_engine* engine, size_t input,
                                    const temper_preprocessing* preprocessing, const void* picture,
                                    size_t picture_bytes, void* data, size_t bytes);

/* Pixels in memory, as cameras and decoders of video give them: rows from top to bottom, one byte a channel, channels
 * side by side. */
typedef struct {
  const void* data;
  int64_t height, width;
  int64_t channels;  /* 3, or 1: grey */
  int64_t row_bytes; /* from the beginning of a row to that of the next; 0: width * channels */
  int bgr;           /* not 0: blue first; otherwise red */
} temper_pixels;

/* One sample, as temper_picture_decode makes it of a picture with these pixels. */
temper_status temper_picture_prepare(const temper_engine* engine, size_t input,
                                     const temper_preprocessing* preprocessing, const temper_pixels* pixels, void* data,
                                     size_t bytes);

/* Tells where the model's input lies in the picture: the point (x, y) of the input, in pixels, is the point
 * (x * scale_x + left, y * scale_y + top) of the picture. */
typedef struct {
  double scale_x, scale_y;
  double left, top;
} temper_placement;

/* For pictures of height x width pixels: what turns boxes that a detector answers into boxes of the picture. */
temper_status temper_picture_placement(const temper_engine* engine, size_t input,
                                       const temper_preprocessing* preprocessing, int64_t height, int64_t width,
                                       temper_placement* placement);

typedef struct {
  int64_t index;
  double value;       /* as the model gives it */
  double probability; /* softmax of the sample's values, or the value where these are probabilities already */
} temper_class;

/* The best `count` classes of one sample of an output [batch, classes, 1...] of floats in the host's memory, as `temper
 * run` shows them: the best first, of equal ones that with the lower index, NaN last. `found` gets how many there are,
 * fewer where the output has fewer. TEMPER_USAGE for another output. */
temper_status temper_top_classes(const temper_tensor* output, size_t sample, size_t count, temper_class* classes,
                                 size_t* found);

#undef TEMPER_ENUM
#ifdef __cplusplus
}
#endif
#endif
