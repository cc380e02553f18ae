/* SPDX-License-Identifier: Apache-2.0 */
/* The same as pictures.cc in C: classifies a folder of pictures with a plan, on several threads, and writes a table.
 *
 *   pictures_c resnet50.plan photos answers.csv 4
 *
 * One engine is shared; each thread has a session of its own. The plan is best built with --threads 1: what runs side
 * by side here are the pictures. Plans of one input and one output of [batch, classes]. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "temper/temper_c.h"

enum { MAX_THREADS = 256, MAX_MESSAGE = 1024 };

typedef struct {
  char* path;
  size_t best;
  double probability, ms;
} Picture;

typedef struct {
  const temper_engine* engine;
  Picture* pictures;
  size_t count, next;
  temper_status status;      /* of the first failure */
  char message[MAX_MESSAGE]; /* temper_last_error() is the failing thread's */
  pthread_mutex_t mutex;
} Work;

static int is_picture(const struct dirent* entry) {
  const char* dot = strrchr(entry->d_name, '.');
  static const char* const known[] = {".jpg", ".jpeg", ".png", ".webp", ".bmp",
                                      ".tif", ".tiff", ".pgm", ".ppm",  ".pnm"};
  size_t i;
  for (i = 0; dot && i < sizeof known / sizeof *known; ++i)
    if (strcasecmp(dot, known[i]) == 0) return 1;
  return 0;
}

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1e3 + time.tv_nsec / 1e6;
}

static void take_best(Picture* picture, const temper_tensor* scores) {
  const float* score = scores->data;
  size_t count = 1;
  for (size_t i = 0; i < scores->rank; ++i) count *= (size_t)scores->dims[i];
  picture->best = 0;
  for (size_t i = 1; i < count; ++i)
    if (score[i] > score[picture->best]) picture->best = i;
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += exp((double)score[i] - score[picture->best]);
  picture->probability = 1 / sum;
}

static temper_status classify(const temper_engine* engine, temper_session* session, const int64_t dims[4], void* data,
                              size_t bytes, temper_dtype dtype, Picture* picture) {
  temper_status status = temper_picture_read(engine, 0, NULL, picture->path, data, bytes);
  if (status != TEMPER_OK) return status;
  const temper_tensor input = {dtype, 4, dims, data};
  temper_tensor scores;
  const double start = now_ms();
  status = temper_session_run(session, &input, 1);
  picture->ms = now_ms() - start;
  if (status == TEMPER_OK) status = temper_session_output(session, 0, &scores);
  if (status == TEMPER_OK) take_best(picture, &scores);
  return status;
}

/* The next picture that nobody has, or NULL. */
static Picture* take(Work* work) {
  pthread_mutex_lock(&work->mutex);
  Picture* picture = work->status == TEMPER_OK && work->next < work->count ? &work->pictures[work->next++] : NULL;
  pthread_mutex_unlock(&work->mutex);
  return picture;
}

static void* work_on(void* argument) {
  Work* work = argument;
  temper_session* session = NULL;
  temper_port port;
  int64_t dims[4] = {1, 0, 0, 0};
  void* data = NULL;
  size_t bytes = 0;
  temper_status status = temper_session_create(work->engine, &session);
  if (status == TEMPER_OK) status = temper_engine_input(work->engine, 0, &port);
  if (status == TEMPER_OK) status = temper_picture_dims(work->engine, 0, NULL, dims + 1);
  if (status == TEMPER_OK) {
    bytes = (size_t)(dims[1] * dims[2] * dims[3]) * temper_dtype_size(port.dtype);
    data = malloc(bytes);
    for (Picture* picture; data && status == TEMPER_OK && (picture = take(work));)
      status = classify(work->engine, session, dims, data, bytes, port.dtype, picture);
  }
  if (status != TEMPER_OK || !data) {
    pthread_mutex_lock(&work->mutex);
    if (work->status == TEMPER_OK) {
      work->status = status != TEMPER_OK ? status : TEMPER_MACHINE;
      snprintf(work->message, sizeof work->message, "%s", status != TEMPER_OK ? temper_last_error() : "out of memory");
    }
    pthread_mutex_unlock(&work->mutex);
  }
  free(data);
  temper_session_free(session);
  return NULL;
}

static temper_status write_csv(const char* path, const Picture* pictures, size_t count) {
  char unfinished[4096];
  if (snprintf(unfinished, sizeof unfinished, "%s.new", path) >= (int)sizeof unfinished) return TEMPER_USAGE;
  FILE* file = fopen(unfinished, "w");
  if (!file) return TEMPER_MACHINE;
  fprintf(file, "picture,class,name,probability,ms\n");
  for (size_t i = 0; i < count; ++i) {
    const char* name = strrchr(pictures[i].path, '/') + 1;
    const int quoted = strpbrk(name, ",\"\r\n") != NULL;
    if (quoted) fputc('"', file);
    for (const char* c = name; *c; ++c) {
      if (*c == '"') fputc('"', file);
      fputc(*c, file);
    }
    if (quoted) fputc('"', file);
    fprintf(file, ",%zu,,%.6f,%.3f\n", pictures[i].best, pictures[i].probability, pictures[i].ms);
  }
  const int written = !ferror(file);
  if (fclose(file) != 0 || !written || rename(unfinished, path) != 0) return TEMPER_MACHINE;
  return TEMPER_OK;
}

static temper_status complain(temper_status status, const char* message) {
  fprintf(stderr, "pictures_c: %s\n", message);
  return status;
}

static temper_status classify_all(Work* work, const char* csv, size_t threads) {
  pthread_t pool[MAX_THREADS];
  size_t started = 0;
  pthread_mutex_init(&work->mutex, NULL);
  while (started + 1 < threads && pthread_create(&pool[started], NULL, work_on, work) == 0) ++started;
  work_on(work);
  for (size_t t = 0; t < started; ++t) pthread_join(pool[t], NULL);
  pthread_mutex_destroy(&work->mutex);
  if (work->status != TEMPER_OK) return complain(work->status, work->message);
  if (write_csv(csv, work->pictures, work->count) != TEMPER_OK)
    return complain(TEMPER_MACHINE, "cannot write the table");
  printf("%zu pictures, %zu threads: %s\n", work->count, started + 1, csv);
  return TEMPER_OK;
}

int main(int argc, char** argv) {
  const long threads = argc == 5 ? strtol(argv[4], NULL, 10) : 1;
  if ((argc != 4 && argc != 5) || threads < 1 || threads > MAX_THREADS)
    return complain(TEMPER_USAGE, "usage: pictures_c PLAN FOLDER ANSWERS.csv [THREADS]");
  temper_engine* engine = NULL;
  temper_status status = temper_engine_load(argv[1], &engine);
  if (status != TEMPER_OK) return complain(status, temper_last_error());
  temper_port output;
  if (temper_engine_input_count(engine) != 1 || temper_engine_output_count(engine) != 1 ||
      temper_engine_output(engine, 0, &output) != TEMPER_OK || output.dtype != TEMPER_F32) {
    temper_engine_free(engine);
    return complain(TEMPER_USAGE, "the plan must have one input, and one output of f32");
  }
  struct dirent** entries = NULL;
  const int found = scandir(argv[2], &entries, is_picture, alphasort);
  Picture* pictures = found > 0 ? calloc((size_t)found, sizeof *pictures) : NULL;
  size_t count = 0;
  for (int i = 0; i < found; ++i) {
    const size_t length = strlen(argv[2]) + strlen(entries[i]->d_name) + 2;
    char* path = pictures ? malloc(length) : NULL;
    if (path) {
      snprintf(path, length, "%s/%s", argv[2], entries[i]->d_name);
      pictures[count++].path = path;
    }
    free(entries[i]);
  }
  free(entries);
  if (found <= 0)
    status = complain(TEMPER_BAD_FILE,
                      "the folder holds no pictures (.jpg, .jpeg, .png, .webp, .bmp, .tif, .tiff, .pgm, .ppm, .pnm)");
  else if ((int)count != found) status = complain(TEMPER_MACHINE, "out of memory");
  else {
    Work work = {.engine = engine, .pictures = pictures, .count = count};
    status = classify_all(&work, argv[3], (size_t)threads < count ? (size_t)threads : count);
  }
  for (size_t i = 0; i < count; ++i) free(pictures[i].path);
  free(pictures);
  temper_engine_free(engine);
  return status;
}
