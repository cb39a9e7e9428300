# SPDX-License-Identifier: Apache-2.0

"""How the parts of a resource that no server has are drawn, in their order."""

from nova_ext_resources.inspection import rows

#: None is a letter or a digit: these stand for servers.
MARKS = {
    rows.PartKind.HOST: '=',
    rows.PartKind.OTHER: '%',
    rows.PartKind.POOL: '~',
    rows.PartKind.RESERVED: '#',
    rows.PartKind.FREE: '.',
}

TEXTS = {
    rows.PartKind.HOST: 'the host itself, or its I/O devices',
    rows.PartKind.OTHER: 'other software',
    rows.PartKind.POOL: 'a pool of burst or shared ways',
    rows.PartKind.RESERVED: 'reserved: the host itself, a pool, or other '
    'software',
    rows.PartKind.FREE: 'free',
}
