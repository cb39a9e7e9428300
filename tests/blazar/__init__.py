# SPDX-License-Identifier: Apache-2.0

"""Tests of the plugin of Blazar, with a real Blazar."""
