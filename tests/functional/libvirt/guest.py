# SPDX-License-Identifier: Apache-2.0

"""The smallest guest that shows that it runs and ends when it is told to.

A boot sector. It says so on the serial port when it starts to run, then
sleeps until the power button is pressed, and then switches the power off.
"""

#: What a guest writes to its console each time it boots.
HELLO = b'R'

_SECTOR_BYTES = 512
_IMAGE_BYTES = 1024 * 1024

#: Where a boot sector of a FAT volume has the number of its tables, the kind
#: of its medium and its code. Glance takes one of another kind for a disk
#: with a partition table and refuses it, because it finds no partition.
_FATS, _MEDIA, _CODE = 0x10, 0x15, 0x3E

#: I/O ports of the power management of QEMU's machine type "pc", where
#: SeaBIOS puts them, and of the first serial port.
_STATUS, _ENABLE, _CONTROL, _SERIAL = 0x600, 0x602, 0x604, 0x3F8


def make_image() -> bytes:
    """Return a raw disk image."""
    code = b''.join(
        (
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


def _mov_dx(port: int) -> bytes:
    return b'\xba' + port.to_bytes(2, 'little')
