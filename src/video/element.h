// SPDX-License-Identifier: Apache-2.0
// The element temperinfer of GStreamer: frames of one stream or several go through a plan, together in batches, and
// come out with labels.
#pragma once
#include <gst/gst.h>

G_BEGIN_DECLS

#define TEMPER_TYPE_INFER (temper_infer_get_type())
G_DECLARE_FINAL_TYPE(TemperInfer, temper_infer, TEMPER, INFER, GstElement)

G_END_DECLS
