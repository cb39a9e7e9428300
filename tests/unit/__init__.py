# SPDX-License-Identifier: Apache-2.0

"""Tests of one part each; without Nova."""

# Settings count where a test is defined: this loads those of all property
# tests before any of them is.
from tests.unit import strategies as strategies
