# SPDX-License-Identifier: Apache-2.0
"""Engines beside each other on one machine, in turns: what `temper versus` and ./dev bench peers run."""
