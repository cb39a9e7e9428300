# SPDX-License-Identifier: Apache-2.0

"""The table of operations in the documentation, from the tests that ran.

    python -m dev.matrix RUN [RUN...]

RUN is a file of subunit, version 2, as ``stestr last --subunit`` writes it. A
test counts as in the last of them in which it was not skipped. Ends with 1
when a test of the table failed or did not run; the table says so as well.

* ``plan``: reads which tests play which operation, and why others do not
* ``suites``: the classes of the tests, from their source
* ``outcomes``: which tests passed
* ``table``: brings all of it together, and writes the files
"""
