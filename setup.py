# SPDX-License-Identifier: Apache-2.0

import setuptools


class Distribution(setuptools.Distribution):
    """A distribution whose packages all have dotted names.

    pbr takes the folders in ``[files] packages`` of setup.cfg and leaves the
    slashes of ``nova/virt/ext_resources`` in the package's name. A wheel comes
    out right all the same; a develop install does not find the module.
    """

    def finalize_options(self):
        super().finalize_options()
        self.packages = [
            name.replace('/', '.') for name in self.packages or ()
        ]


setuptools.setup(
    setup_requires=['pbr>=6.1.1'],
    distclass=Distribution,
    pbr=True,
)
