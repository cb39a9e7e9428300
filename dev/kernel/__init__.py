# SPDX-License-Identifier: Apache-2.0

"""The tests of resctrl on stock kernels: ``tox -e kernel``.

A kernel of Debian starts in an emulated machine whose processor says that it
has RDT, and sees the root of this machine, read-only, below memory: the
checkout and its Python are where they are here.

* ``gate``: the command, and what it makes of the results
* ``plan``: which tests run on which kernel and machine
* ``report``: counts, and what is not as the tables say
* ``differences``: the tables of what kernels answer otherwise than the model,
  and of tests that cannot pass on them
* ``machines``: the machines of the model, emulated
* ``archive``: packages of Debian
* ``obstacle``: why it cannot run here
* ``room``: how many guests this machine has memory and CPUs for
* ``emulator``: builds QEMU; ``boot``: starts a kernel in it
"""
