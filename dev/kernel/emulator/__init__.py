# SPDX-License-Identifier: Apache-2.0

"""A QEMU whose processor says that it has RDT.

Built once from Debian's source, and kept; its name has the version and a sum
of everything that the build depends on.

* ``patch``: the changes of QEMU's source
* ``build``: fetches, patches and compiles
* ``rdt.c``, ``rdt.h``: the processor
"""
