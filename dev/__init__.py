# SPDX-License-Identifier: Apache-2.0

"""What developers run, beside the product; none of it is installed.

The product is in ``nova_ext_resources`` and ``nova``; ``tools`` has the
scripts that a shell starts, such as ``tools/tox``.

* ``bench``: benchmarks, each with its peers and goals: ``tox -e bench``
* ``cloud``: small real clouds on one machine, which all others here start
* ``demo``: the main story on such a cloud: ``tox -e demo``
* ``gate``: servers' lives on a cloud of separate services: ``tox -e gate``
* ``kernel``: the tests of resctrl on stock kernels: ``tox -e kernel``
* ``matrix``: the table of operations in the documentation, from the tests
"""
