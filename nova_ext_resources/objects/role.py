# SPDX-License-Identifier: Apache-2.0

"""What a consumer is to a host, as Nova and the hypervisor know it."""

import enum


class Role(enum.StrEnum):
    """Why a consumer may hold anything of a host, or no longer may.

    ``SERVER``: a server that Nova or the hypervisor has on the host.
    ``SOURCE``: a move in progress from the host. Its consumer is the
        migration; or the server, if the host could not keep its entry for
        the migration.
    ``DESTINATION``: a server that a move in progress brings to the host.
    ``ARRIVED``: a server that a live migration has brought to the host, which
        was not told.
    ``RETURNED``: a move that has ended, and whose server is on the host
        again: it gets back what the move has kept.
    ``LEFT``: a move that has ended, or a server that is deleted or on no
        host, or that neither Nova's cell nor placement has here; nothing of
        it is on the host.
    ``IN_DOUBT``: a move with which Nova does not go on. Whether the server
        gets back what it has kept, cannot be told.
    ``ELSEWHERE``: a server whose guest is on this host, while Nova has it on
        another or on none, and no move in progress explains that.
    """

    SERVER = 'server'
    SOURCE = 'source'
    DESTINATION = 'destination'
    ARRIVED = 'arrived'
    RETURNED = 'returned'
    LEFT = 'left'
    IN_DOUBT = 'in_doubt'
    ELSEWHERE = 'elsewhere'
