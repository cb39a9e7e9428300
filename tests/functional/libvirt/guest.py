# SPDX-License-Identifier: Apache-2.0

"""The smallest guest that shows that it runs and ends when it is told to.

A boot sector. It writes to so much of its memory that a slow transfer takes a
while, however little it has: QEMU sends nothing of what was never written.
Then it says on the serial port that it runs, sleeps until the power button is
pressed, and switches the power off.
"""

#: What a guest writes to its console each time it boots.
HELLO = b'R'

#: How much a transfer has to send.
WRITTEN_MIB = 20

_SECTOR_BYTES = 512
_IMAGE_BYTES = 1024 * 1024

#: Where a boot sector of a FAT volume has the number of its tables, the kind
#: of its medium and its code. Glance takes one of another kind for a disk
#: with a partition table and refuses it, because it finds no partition.
_FATS, _MEDIA, _CODE = 0x10, 0x15, 0x3E

#: I/O ports of the power management of QEMU's machine type "pc", where
#: SeaBIOS puts them, and of the first serial port.
_STATUS, _ENABLE, _CONTROL, _SERIAL = 0x600, 0x602, 0x604, 0x3F8

#: Where firmware loads a boot sector; and where what is written begins, above
#: what the firmware uses.
_LOADED, _WRITTEN = 0x7C00, 2 << 20

_PAGE_BYTES = 4096

#: Of processor tables: nothing, and data of all the memory (Intel SDM volume
#: 3, "Segment Descriptors").
_DESCRIPTORS = bytes(8) + bytes.fromhex('ffff00000092cf00')


def make_image() -> bytes:
    """Return a raw disk image."""
    write = _make_write()
    code = b''.join(
        (
            write,
            _mov_dx(_SERIAL),
            b'\xb0' + HELLO,  # mov al, 'R'
            b'\xee',  # out dx, al
            _mov_dx(_ENABLE),
            b'\xb8\x00\x01',  # mov ax, the power button's bit
            b'\xef',  # out dx, ax
            b'\xfb',  # sti
            b'\xf4',  # again: hlt, until the next tick of the timer
            _mov_dx(_STATUS),
            b'\xed',  # in ax, dx
            b'\xf6\xc4\x01',  # test ah, the power button's bit
            b'\x74\xf6',  # jz again
            _mov_dx(_CONTROL),
            b'\xb8\x00\x20',  # mov ax, soft off
            b'\xef',  # out dx, ax
            b'\xeb\xed',  # jmp again
        )
    )
    sector = bytearray(_SECTOR_BYTES)
    sector[:3] = b'\xeb\x3c\x90'  # jmp over the table of a FAT volume
    sector[_FATS], sector[_MEDIA] = 2, 0xF8
    sector[_CODE : _CODE + len(code)] = code
    sector[-2:] = b'\x55\xaa'
    return bytes(sector).ljust(_IMAGE_BYTES, b'\0')


def _make_write() -> bytes:
    """Return code that writes a byte to each page.

    It is in real mode, where a register that was loaded in protected mode
    still reaches all the memory.
    """
    table = b'\xeb\x16' + _DESCRIPTORS  # jmp over it and what points to it
    where = _LOADED + _CODE + 2
    limit = len(_DESCRIPTORS) - 1
    pointer = limit.to_bytes(2, 'little') + where.to_bytes(4, 'little')
    return b''.join(
        (
            table,
            pointer,
            b'\xfa',  # cli
            b'\x31\xc0\x8e\xd8',  # xor ax, ax; mov ds, ax
            b'\x0f\x01\x16',  # lgdt
            (where + len(_DESCRIPTORS)).to_bytes(2, 'little'),
            b'\x0f\x20\xc0\x0c\x01\x0f\x22\xc0',  # protected mode
            b'\xbb\x08\x00\x8e\xc3',  # mov bx, 8; mov es, bx
            b'\x24\xfe\x0f\x22\xc0',  # real mode
            b'\x66\xbf' + _WRITTEN.to_bytes(4, 'little'),  # mov edi
            b'\xb9' + (WRITTEN_MIB * 256).to_bytes(2, 'little'),  # mov cx
            b'\x26\x67\xfe\x07',  # again: inc byte [es:edi]
            b'\x66\x81\xc7' + _PAGE_BYTES.to_bytes(4, 'little'),  # add edi
            b'\xe2\xf3',  # loop again
        )
    )


def _mov_dx(port: int) -> bytes:
    return b'\xba' + port.to_bytes(2, 'little')
