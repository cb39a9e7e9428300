# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""A kernel's resctrl that answers back, without the hardware.

One model, two fronts: :class:`.tree.Tree` inside the process, and a FUSE
file system for programs that open files. It refuses what the real one
refuses, with the same error numbers and the same words in
``info/last_cmd_status``, in the format of the kernel version of the shape.

``python -m nova_ext_resources.testing.resctrl --shape epyc16 --mount DIR``
mounts one; :class:`ResctrlFixture` makes one for a test. Not modelled:
pseudo-locking's effect, counters that must be assigned (ABMC), what
``mbm_*_config`` changes, and time: counters say what a test sets.
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
