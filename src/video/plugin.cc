// SPDX-License-Identifier: Apache-2.0
// The plugin "temper" of GStreamer, with the one element temperinfer. It is a client of the public C API and knows
// nothing else of Temper.
#include "video/element.h"
#include "video/notes.h"

namespace {

gboolean start(GstPlugin* plugin) {
  temper::video::register_meta();
  return gst_element_register(plugin, "temperinfer", GST_RANK_NONE, TEMPER_TYPE_INFER);
}

}  // namespace

#define PACKAGE "temper"
GST_PLUGIN_DEFINE(GST_VERSION_MAJOR, GST_VERSION_MINOR, temper, "labels frames by plans of Temper", start,
                  TEMPER_VERSION, "Apache-2.0", "temper", "https://localhost/temper")
