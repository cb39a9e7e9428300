# SPDX-License-Identifier: Apache-2.0

"""How the parts of a resource that no server has are drawn, in their order."""

from nova_ext_resources.inspection import rows

#: None is a letter or a digit: these stand for servers.
MARKS = {
    rows.Kind.HOST: '=',
    rows.Kind.OTHER: '%',
    rows.Kind.POOL: '~',
    rows.Kind.RESERVED: '#',
    rows.Kind.FREE: '.',
}

TEXTS = {
    rows.Kind.HOST: 'the host itself, or its I/O devices',
    rows.Kind.OTHER: 'other software',
    rows.Kind.POOL: 'a pool of burst or shared ways',
    rows.Kind.RESERVED: 'reserved: the host itself, a pool, or other software',
    rows.Kind.FREE: 'free',
}
