/* SPDX-License-Identifier: Apache-2.0 */
/* Temper from C: load a plan or build one from ONNX, run it.
 *
 * Every function that can fail returns a status; temper_last_error() then says what, where and what to do next, and
 * what the function would have given is untouched. Nothing here prints, exits or throws. An engine is immutable and may
 * be shared by threads; a session belongs to one thread at a time.
 *
 * All of it is in libtemper. Of the static libraries, temper_runtime has all but temper_engine_build and the pictures;
 * those need temper_build as well. */
#ifndef TEMPER_C_H
#define TEMPER_C_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The same numbers as the exit codes of the program. */
typedef enum {
  TEMPER_OK = 0,
  TEMPER_CHECK_FAILED = 1, /* a limit or a comparison was not met */
  TEMPER_USAGE = 2,        /* wrong arguments: name, dtype, shape, NULL */
  TEMPER_BAD_FILE = 3,     /* missing, damaged or not what it should be */
  TEMPER_UNSUPPORTED = 4,  /* not implemented exactly, or made for another machine or version */
  TEMPER_MACHINE = 5       /* out of memory, disk full, device failure */
} temper_status;

typedef enum {
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
  TEMPER_BOOL /* one byte, 0 or 1 */
} temper_dtype;

typedef struct temper_engine temper_engine;
typedef struct temper_session temper_session;

/* Row-major elements that somebody else owns. */
typedef struct {
  temper_dtype dtype;
  size_t rank;
  const int64_t* dims;
  const void* data;
} temper_tensor;

/* What an input takes or an output gives; a dimension is -1 where it may vary. Valid as long as the engine. */
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

/* Set it to zero first (= {0}): zero is always the default, and fields may be added. */
typedef struct {
  const char* device;               /* NULL: "cpu" */
  const char* precision;            /* as --precision of `temper build`; NULL: "fp32" */
  const char* calibration;          /* file of ranges from `temper calibrate`, for "int8"; NULL: none */
  const char* timing_cache;         /* file of measured times, read and extended; NULL: none */
  int threads;                      /* 0: all that the process may use */
  const temper_shape_range* shapes; /* of inputs that leave dimensions open; an open batch without a range means 1 */
  size_t shape_count;
  int64_t memory_limit; /* bytes that the model may take; 0: by its size, as for temper build --memory-limit */
} temper_build_options;

/* "0.1.0" */
const char* temper_version(void);

/* Of the last call in this thread that failed; valid until the next one that fails. Never NULL. */
const char* temper_last_error(void);

/* Bytes of an element; 0 for what is no dtype. */
size_t temper_dtype_size(temper_dtype dtype);

typedef enum { TEMPER_DEBUG, TEMPER_INFO, TEMPER_WARNING } temper_log_level;
typedef void (*temper_log_callback)(temper_log_level level, const char* message, void* context);

/* Where messages go, from any thread; NULL: nowhere, the default. For the whole process: set it before other threads
 * call Temper. The callback must not throw. */
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
} temper_load_options;

/* The same; `options` may be NULL. */
temper_status temper_engine_load_with(const char* plan_path, const temper_load_options* options,
                                      temper_engine** engine);

/* Imports, optimises and measures: seconds to minutes. `options` may be NULL. */
temper_status temper_engine_build(const char* onnx_path, const temper_build_options* options, temper_engine** engine);

/* Writes a plan file; what was there before stays if that fails. TEMPER_USAGE where that is a file that the engine was
 * loaded or built from (model, external data, ranges), or anything but a plan. Symbolic links are followed. */
temper_status temper_engine_save(const temper_engine* engine, const char* plan_path);

/* The same, and a file of another kind is replaced, too; never one that the engine was loaded or built from. */
temper_status temper_engine_save_over(const temper_engine* engine, const char* plan_path);

/* Sessions made from it keep working. NULL is allowed. */
void temper_engine_free(temper_engine* engine);

/* What is kept for shapes that come at run time, where a model takes several: what was used last. A shape that was let
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

/* 0 for NULL. */
size_t temper_engine_input_count(const temper_engine* engine);
size_t temper_engine_output_count(const temper_engine* engine);
temper_status temper_engine_input(const temper_engine* engine, size_t index, temper_port* port);
temper_status temper_engine_output(const temper_engine* engine, size_t index, temper_port* port);

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

/* Makes everything ready for these shapes, so that a run only runs; `data` of the inputs is not read. */
temper_status temper_session_prepare(temper_session* session, const temper_tensor* inputs, size_t count);

/* Inputs in the engine's order. Prepares first where the shapes are new. */
temper_status temper_session_run(temper_session* session, const temper_tensor* inputs, size_t count);

/* The same for an engine of a GPU ("cuda:0") with inputs that lie in that GPU's memory: `data` are its addresses, of
 * its primary context (that of the CUDA runtime), however aligned. Outputs lie there, too. Nothing passes through the
 * host's memory. Inputs that come for a second time are read where they lie; new ones, those not aligned to 256 bytes
 * and those that share memory are copied on the GPU. Returns when all is done. What writes the inputs must be done by
 * then, or the session's stream must wait for it. TEMPER_USAGE for an engine of another device, TEMPER_UNSUPPORTED for
 * a model in which shapes depend on data. */
temper_status temper_session_run_on_device(temper_session* session, const temper_tensor* inputs, size_t count);

/* The CUstream that the runs of this session are put into, for cuStreamWaitEvent. TEMPER_USAGE for an engine of another
 * device than a GPU. */
temper_status temper_session_stream(temper_session* session, void** stream);

/* Of the last run, which must have succeeded; valid until the session's next call but this. */
temper_status temper_session_output(const temper_session* session, size_t index, temper_tensor* output);

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

/* A JPEG, PNG, WebP, BMP or TIFF file as one sample, of the input's dtype: temper_picture_dims' elements, `bytes` in
 * all. */
temper_status temper_picture_read(const temper_engine* engine, size_t input, const temper_preprocessing* preprocessing,
                                  const char* path, void* data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
