#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Vega-Lite, Vega and Vega-Embed as one classic script for the pages of temper report.

usage: vega_bundle.py OUTPUT
"""
import os
import re
import sys

import vl_convert

bundle = vl_convert.javascript_bundle()
# Inside <script>, these would end the element, or begin a comment in which its end does not count; a carriage return would
# change on its way through HTML, and with it the hash that allows the script to run.
if re.search(r"</script|<script|<!--|\r", bundle, re.I):
    sys.exit("this vl-convert's JavaScript cannot stand inside a page as it is")
with open(sys.argv[1] + ".new", "w", encoding="utf-8", newline="\n") as file:
    file.write(bundle)
os.replace(sys.argv[1] + ".new", sys.argv[1])
