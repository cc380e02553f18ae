/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a plan on numbers from a text file and prints what comes out.
 *
 *   run digits.plan examples/cpp/seven.txt
 *
 * For plans with one f32 input; the axes that may vary are taken as 1. */
#include <stdio.h>
#include <stdlib.h>

#include "temper/temper_c.h"

#define MAX_RANK 8

static temper_status failed(temper_status status) {
  fprintf(stderr, "run: %s\n", temper_last_error());
  return status;
}

static temper_status refused(const char* why) {
  fprintf(stderr, "run: %s\n", why);
  return TEMPER_USAGE;
}

/* `count` numbers; NULL where the file does not hold as many. */
static float* read_numbers(const char* path, size_t count) {
  FILE* file = fopen(path, "r");
  float* numbers = malloc(count * sizeof(float));
  size_t read = 0;
  if (file && numbers)
    while (read < count && fscanf(file, "%f", &numbers[read]) == 1) ++read;
  if (file) fclose(file);
  if (read == count) return numbers;
  free(numbers);
  return NULL;
}

static temper_status print_output(const temper_engine* engine, const temper_session* session, size_t index) {
  temper_port port;
  temper_tensor tensor;
  temper_status status = temper_engine_output(engine, index, &port);
  if (status == TEMPER_OK) status = temper_session_output(session, index, &tensor);
  if (status != TEMPER_OK) return failed(status);
  size_t count = 1;
  printf("%s", port.name);
  for (size_t i = 0; i < tensor.rank; ++i) {
    printf("%s%lld", i ? "x" : " ", (long long)tensor.dims[i]);
    count *= (size_t)tensor.dims[i];
  }
  printf(":");
  for (size_t i = 0; i < count && tensor.dtype == TEMPER_F32; ++i) printf(" %.6g", ((const float*)tensor.data)[i]);
  printf("\n");
  return TEMPER_OK;
}

static temper_status run(const temper_engine* engine, temper_session* session, const char* path) {
  temper_port port;
  temper_status status = temper_engine_input(engine, 0, &port);
  if (status != TEMPER_OK) return failed(status);
  if (temper_engine_input_count(engine) != 1 || port.dtype != TEMPER_F32 || port.rank > MAX_RANK)
    return refused("the plan must have one input, of f32");

  int64_t dims[MAX_RANK];
  size_t count = 1;
  for (size_t i = 0; i < port.rank; ++i) {
    dims[i] = port.dims[i] < 0 ? 1 : port.dims[i];
    count *= (size_t)dims[i];
  }
  float* numbers = read_numbers(path, count);
  if (!numbers) return refused("the file does not hold as many numbers as the input has elements");
  const temper_tensor input = {TEMPER_F32, port.rank, dims, numbers};
  status = temper_session_run(session, &input, 1);
  free(numbers);
  if (status != TEMPER_OK) return failed(status);
  for (size_t i = 0; i < temper_engine_output_count(engine) && status == TEMPER_OK; ++i)
    status = print_output(engine, session, i);
  return status;
}

int main(int argc, char** argv) {
  if (argc != 3) return refused("usage: run PLAN NUMBERS.txt");
  temper_engine* engine = NULL;
  temper_session* session = NULL;
  temper_status status = temper_engine_load(argv[1], &engine);
  if (status == TEMPER_OK) status = temper_session_create(engine, &session);
  status = status == TEMPER_OK ? run(engine, session, argv[2]) : failed(status);
  temper_session_free(session);
  temper_engine_free(engine);
  return status;
}
