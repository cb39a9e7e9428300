# SPDX-License-Identifier: Apache-2.0

"""The main job on one machine: real Nova, real placement, simulated hardware.

Run it with ``python -m demo``.
"""
