# SPDX-License-Identifier: Apache-2.0

"""A kernel's resctrl that answers back, without the hardware.

One model, two fronts: :class:`.tree.Tree` inside the process, and a FUSE
file system for programs that open files. It refuses what the real one
refuses, with the same error numbers and the same words in
``info/last_cmd_status``, in the format of the kernel version of the shape.

``python -m nova_ext_resources.testing.resctrl --shape epyc16 --mount DIR``
mounts one; :class:`ResctrlFixture` makes one for a test. Not modelled:
pseudo-locking's effect, counters that must be assigned (ABMC), what
``mbm_*_config`` changes, and time: counters say what a test sets.

The files:

* ``capture``: reads the captured tree of a real machine
* ``cli``: the command line
* ``controls``: the lines of a schemata file, one control each
* ``faults``: faults on demand
* ``files``: which files exist, what they show and take
* ``fixture``: a machine with resctrl for the time of a test
* ``fuse``: the model as a FUSE file system
* ``groups``: control groups and monitoring groups
* ``interference``: reads and changes the model from behind
* ``kernel``: the model: what the file operations do; start here
* ``monitoring``: monitoring ids and their counters
* ``mount``: one mount of resctrl and its groups
* ``mounted``: a model that another process has mounted
* ``numbers``: numbers as the kernel reads and writes them
* ``remote``: interference with a model in another process
* ``schemata``: all controls of a mount
* ``shape``: a kind of machine and kernel, as plain data
* ``shapes``: machines that exist, by name
* ``sysfs``: ``/sys/devices/system/cpu`` of a machine
* ``tasks``: threads, and which cloned which
* ``tree``: the model's front inside this process
"""

from nova_ext_resources.testing.resctrl import fixture
from nova_ext_resources.testing.resctrl import kernel
from nova_ext_resources.testing.resctrl import shape
from nova_ext_resources.testing.resctrl import shapes
from nova_ext_resources.testing.resctrl import tree

Kernel = kernel.Kernel
ResctrlFixture = fixture.ResctrlFixture
SHAPES = shapes.SHAPES
Shape = shape.Shape
Tree = tree.Tree

__all__ = ('SHAPES', 'Kernel', 'ResctrlFixture', 'Shape', 'Tree')
