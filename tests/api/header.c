/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled, not run: the header stands alone, in plain C11, and every function can be called from it. */
#include "temper/temper_c.h"

_Static_assert(TEMPER_OK == 0 && TEMPER_CHECK_FAILED == 1 && TEMPER_USAGE == 2 && TEMPER_BAD_FILE == 3 &&
                   TEMPER_UNSUPPORTED == 4 && TEMPER_MACHINE == 5,
               "the documented exit codes");

void heard(temper_log_level level, const char* message, void* context);

temper_status use(const char* path) {
  temper_build_options options = {0};
  temper_engine* engine = NULL;
  temper_session* session = NULL;
  temper_port port;
  temper_tensor output;
  temper_set_log_callback(heard, NULL);
  temper_status status = temper_engine_build(path, &options, &engine);
  if (status == TEMPER_OK) status = temper_engine_save(engine, temper_version());
  if (status == TEMPER_OK) status = temper_engine_load(temper_last_error(), &engine);
  if (status == TEMPER_OK) status = temper_engine_input(engine, temper_engine_input_count(engine), &port);
  if (status == TEMPER_OK) status = temper_engine_output(engine, temper_engine_output_count(engine), &port);
  if (status == TEMPER_OK) status = temper_session_create(engine, &session);
  const temper_tensor input = {port.dtype, port.rank, port.dims, NULL};
  if (status == TEMPER_OK) status = temper_session_prepare(session, &input, temper_dtype_size(port.dtype));
  if (status == TEMPER_OK) status = temper_session_run(session, &input, 1);
  if (status == TEMPER_OK) status = temper_session_output(session, 0, &output);
  const temper_pixels pixels = {port.name, 1, 1, 3, 0, 0};
  temper_placement placement;
  temper_class best;
  size_t found = 0;
  uint8_t sample[3];
  if (status == TEMPER_OK) status = temper_picture_prepare(engine, 0, NULL, &pixels, sample, sizeof sample);
  if (status == TEMPER_OK) status = temper_picture_placement(engine, 0, NULL, pixels.height, pixels.width, &placement);
  if (status == TEMPER_OK) status = temper_top_classes(&output, 0, 1, &best, &found);
  temper_session_free(session);
  temper_engine_free(engine);
  return status;
}
