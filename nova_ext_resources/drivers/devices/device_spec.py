# SPDX-License-Identifier: Apache-2.0

"""Which devices Nova reports itself: its option ``[pci] device_spec``. Pure.

The rules are Nova's (``nova/pci/devspec.py``, 32 to 34): each value is a JSON
object, or a list of them. An address is a glob or an object of regular
expressions, which match at the beginning; a single address of a physical
function, or the name of its interface, stands for its virtual functions too.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import re
from typing import Any, Protocol

from nova_ext_resources.objects.documents import foreign_data

_ANY = '*'

#: Field of an address -> how many hexadecimal digits it has.
_FIELDS = {'domain': 4, 'bus': 2, 'slot': 2, 'function': 1}

_PARTS = re.compile('[:.]')


class Parent(Protocol):
    """The physical function of a device; a device without one is its own.

    Its interfaces are those of the host.
    """

    @property
    def address(self) -> str: ...

    @property
    def interfaces(self) -> frozenset[str]: ...


class Device(Parent, Protocol):
    """A PCI device; its ids are four hexadecimal digits each."""

    @property
    def vendor_id(self) -> str: ...

    @property
    def product_id(self) -> str: ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSpec:
    """One entry.

    :ivar vendor_id: ``*`` for any, as with ``product_id``
    :ivar address: field -> a regular expression that it must begin with
    :ivar single: the only address that it matches; '' if there may be others
    :ivar interface: in place of an address
    """

    vendor_id: str = _ANY
    product_id: str = _ANY
    address: Mapping[str, str] = dataclasses.field(default_factory=dict)
    single: str = ''
    interface: str = ''

    def matches(self, one: Device, parent: Parent) -> bool:
        """Return whether Nova takes a device by this entry."""
        if not self.has_ids_of(one):
            return False
        if self.interface:
            return self.interface in one.interfaces | parent.interfaces
        if self.single == parent.address:
            return True
        fields = dict(zip(_FIELDS, _PARTS.split(one.address), strict=True))
        return all(
            re.match(pattern, fields[name])
            for name, pattern in self.address.items()
        )

    def has_ids_of(self, one: Device) -> bool:
        return self.vendor_id in (_ANY, one.vendor_id) and (
            self.product_id in (_ANY, one.product_id)
        )


def parse(values: Iterable[str]) -> tuple[DeviceSpec, ...]:
    """Read all values of the option.

    :raises ValueError: one is not valid; Nova does not start with it either
    """
    found = []
    for text in values:
        try:
            data = foreign_data.load_json(text)
            entries = [data] if isinstance(data, dict) else data
            if not isinstance(entries, list):
                raise ValueError(
                    'a JSON object or a list of objects is needed'
                )
            found += [_make(one) for one in entries]
        except (*foreign_data.UNREADABLE, re.error) as err:
            raise ValueError(f'{text}: {err}') from err
    return tuple(found)


def _make(data: Mapping[str, Any]) -> DeviceSpec:
    address = data.get('address')
    interface = str(data.get('devname') or '')
    if address and interface:
        raise ValueError('set either address or devname, not both')
    fields: Mapping[str, str] = {}
    if isinstance(address, dict):
        fields = {name: address[name] for name in _FIELDS if name in address}
        for pattern in fields.values():
            re.compile(pattern)
    elif address:
        fields = _parse_glob(str(address))
    return DeviceSpec(
        vendor_id=_normalize(str(data.get('vendor_id', _ANY)), 4),
        product_id=_normalize(str(data.get('product_id', _ANY)), 4),
        address=fields,
        single=_find_single(fields),
        interface=interface,
    )


def _parse_glob(text: str) -> dict[str, str]:
    front, _dot, function = text.partition('.')
    parts = front.split(':') if front else []
    if len(parts) > 3:
        raise ValueError('the address has too many fields')
    parts = [_ANY] * (3 - len(parts)) + parts + [function]
    fields = {}
    for (name, digits), part in zip(_FIELDS.items(), parts, strict=True):
        value = _normalize(part, digits)
        if value != _ANY:
            fields[name] = value
    return fields


def _normalize(text: str, digits: int) -> str:
    text = text.strip() or _ANY
    return text if text == _ANY else f'{int(text, 16):0{digits}x}'


def _find_single(fields: Mapping[str, str]) -> str:
    """Return the address of which all fields are numbers; '' otherwise."""
    values = [fields.get(name, '') for name in _FIELDS]
    if not all(re.fullmatch('[0-9a-f]+', one) for one in values):
        return ''
    return '{}:{}:{}.{}'.format(*values)
