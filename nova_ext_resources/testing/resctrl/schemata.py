# SPDX-License-Identifier: Apache-2.0

"""All controls of a mount, and what may be set in them."""

from collections.abc import Iterator, Mapping
import errno

from nova_ext_resources.testing.resctrl import controls
from nova_ext_resources.testing.resctrl import groups
from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import shape as shape_mod

Control = controls.Control
CacheControl = controls.CacheControl
Refused = controls.Refused

#: (control, domain) -> value
Staged = dict[tuple[str, int], int]


class Schemata:
    """The controls, in the order of the lines in a schemata file.

    :ivar modes: of each class in use; kept by the model
    :ivar locked: (resource, domain) -> mask that is pseudo-locked
    """

    def __init__(self, shape: shape_mod.Shape) -> None:
        self._shape = shape
        self.is_mbps = 'mba_MBps' in shape.options
        self.controls: dict[str, Control] = {
            control.name: control for control in self._make_controls()
        }
        self.modes: dict[int, str] = {}
        self.locked: dict[tuple[str, int], int] = {}

    def _make_controls(self) -> Iterator[Control]:
        # The kernel puts each new one in front of the others.
        for bandwidth in reversed(self._shape.bandwidths):
            yield controls.BandwidthControl(
                bandwidth,
                is_mbps=self.is_mbps and bandwidth.name == 'MB',
                kernel=self._shape.kernel,
            )
        for cache in sorted(self._shape.caches, key=lambda one: one.level):
            yield from self._make_caches(cache)

    def _make_caches(self, cache: shape_mod.Cache) -> Iterator[Control]:
        if self.has_cdp(cache):
            data = CacheControl(cache, 'DATA')
            code = CacheControl(cache, 'CODE')
            data.peer, code.peer = code, data
            yield from (data, code)
        else:
            yield CacheControl(cache)

    def has_cdp(self, cache: shape_mod.Cache) -> bool:
        """Return whether code and data have ways of their own."""
        option = {3: 'cdp', 2: 'cdpl2'}.get(cache.level)
        return option in self._shape.options

    @property
    def num_closids(self) -> int:
        """Return the classes that can be used: the fewest of any control."""
        return min((c.num_closids for c in self.controls.values()), default=1)

    @property
    def caches(self) -> Iterator[CacheControl]:
        for control in self.controls.values():
            if isinstance(control, CacheControl):
                yield control

    # Reading

    def show(self, group: groups.Group) -> str:
        """Return the text of a group's schemata file."""
        if group.mode == groups.LOCKSETUP:
            return ''.join(f'{name}:uninitialized\n' for name in self.controls)
        if group.locked:
            name, domain, mask = group.locked
            return f'{name}:{domain}={mask:x}\n'
        width = self._value_width
        return ''.join(
            self._line(
                name,
                {
                    domain: control.format(values[group.closid], width)
                    for domain, values in control.values.items()
                },
            )
            for name, control in self.controls.items()
        )

    def show_size(self, group: groups.Group) -> str:
        """Return the text of a group's size file: bytes for ways."""
        if group.locked:
            name, domain, mask = group.locked
            size = self.controls[name].measure(mask)
            return self._line(name, {domain: str(size)})
        is_set = group.mode != groups.LOCKSETUP
        return ''.join(
            self._line(
                name,
                {
                    domain: str(
                        control.measure(values[group.closid]) if is_set else 0
                    )
                    for domain, values in control.values.items()
                },
            )
            for name, control in self.controls.items()
        )

    def _line(self, name: str, values: Mapping[int, str]) -> str:
        shown = ';'.join(f'{domain}={text}' for domain, text in values.items())
        return f'{name:>{self._name_width}}:{shown}\n'

    @property
    def _name_width(self) -> int:
        """Return a width that a mount with CDP would need as well."""
        widths = [len(name) for name in self.controls]
        widths += [6 for cache in self._shape.caches if cache.is_cdp_capable]
        return max(widths, default=0)

    @property
    def _value_width(self) -> int:
        if self._shape.kernel >= shape_mod.NO_PADDING:
            return 0
        return max((c.width for c in self.controls.values()), default=0)

    def show_usage(self, control: CacheControl) -> str:
        """Return the text of a ``bit_usage`` file."""
        return (
            ';'.join(
                f'{domain}={self._usage_of(control, domain)}'
                for domain in control.values
            )
            + '\n'
        )

    def _usage_of(self, control: CacheControl, domain: int) -> str:
        used = {groups.SHAREABLE: 0, groups.EXCLUSIVE: 0}
        for closid, mode in self.modes.items():
            if mode in used:
                used[mode] |= control.values[domain][closid]
        locked = self.locked.get((control.cache.name, domain), 0)
        return ''.join(
            _letter(
                is_hardware=control.cache.shareable_bits >> way & 1,
                is_shared=used[groups.SHAREABLE] >> way & 1,
                is_exclusive=used[groups.EXCLUSIVE] >> way & 1,
                is_locked=locked >> way & 1,
            )
            for way in reversed(range(control.cache.ways))
        )

    # Writing

    def parse(self, text: str, group: groups.Group) -> Staged:
        """Read what was written to a schemata file.

        :raises Refused: something in it cannot be; nothing was set then,
            save limits in MB/s, which the kernel does not stage
        """
        staged: Staged = {}
        for line in text.split('\n'):
            name, colon, rest = line.partition(':')
            name = name.strip()
            if not colon:
                raise Refused("Missing ':'")
            if not rest:
                raise Refused(f"Missing '{name}' value")
            if name not in self.controls:
                raise Refused(f"Unknown or unsupported resource name '{name}'")
            self._parse_line(self.controls[name], rest, group, staged)
        return staged

    def restore(self, text: str, closid: int) -> None:
        """Set what a schemata file said, unchecked and unrounded."""
        for line in text.splitlines():
            name, _colon, rest = line.partition(':')
            control = self.controls.get(name.strip())
            if control is None:
                continue
            base = 16 if isinstance(control, CacheControl) else 10
            for part in filter(None, rest.split(';')):
                domain, value = _split(part)
                if domain in control.values:
                    control.values[domain][closid] = int(value, base)

    def _parse_line(
        self,
        control: Control,
        text: str,
        group: groups.Group,
        staged: Staged,
    ) -> None:
        is_setup = group.mode == groups.LOCKSETUP
        if is_setup and not isinstance(control, CacheControl):
            raise Refused('Cannot pseudo-lock MBA resource')
        for part in text.removesuffix(';').split(';'):
            domain, value = _split(part)
            if domain not in control.values:
                # It says nothing about this one.
                raise Refused()
            key = (control.name, domain)
            if key in staged:
                raise Refused(f'Duplicate domain {domain}')
            parsed = self._parse_value(control, domain, value, group)
            if getattr(control, 'is_mbps', False):
                control.values[domain][group.closid] = parsed
            else:
                staged[key] = parsed
            if is_setup:
                return

    def _parse_value(
        self, control: Control, domain: int, text: str, group: groups.Group
    ) -> int:
        if not isinstance(control, CacheControl):
            return control.parse(text)
        locked = self.locked.get((control.cache.name, domain), 0)
        if locked and group.mode == groups.LOCKSETUP:
            raise Refused('Pseudo-locked region in hierarchy')
        mask = control.parse(text)
        if locked & mask:
            raise Refused('CBM overlaps with pseudo-locked region')
        closid = group.closid
        if self.overlaps(control, domain, mask, closid, only_exclusive=True):
            raise Refused('Overlaps with exclusive group')
        if group.mode != groups.SHAREABLE and self.overlaps(
            control, domain, mask, closid
        ):
            raise Refused('Overlaps with other group')
        return mask

    def overlaps(
        self,
        control: CacheControl,
        domain: int,
        mask: int,
        closid: int,
        only_exclusive: bool = False,
    ) -> bool:
        """Return whether others use some of these ways."""
        if not only_exclusive and mask & control.cache.shareable_bits:
            return True
        for other, mode in self.modes.items():
            if other == closid or mode == groups.LOCKSETUP:
                continue
            if only_exclusive and mode != groups.EXCLUSIVE:
                continue
            if mask & control.get_used(domain, other):
                return True
        return False

    def commit(self, staged: Staged, closid: int) -> None:
        for (name, domain), value in staged.items():
            self.controls[name].values[domain][closid] = value

    def check_exclusive(self, closid: int) -> None:
        """Look whether a class shares nothing.

        :raises Refused: it does, or it has no cache of its own
        """
        caches = list(self.caches)
        if not caches:
            raise Refused('Cannot be exclusive without CAT/CDP')
        for control in caches:
            for domain, values in control.values.items():
                if self.overlaps(control, domain, values[closid], closid):
                    raise Refused('Schemata overlaps')

    def open_class(self, closid: int) -> None:
        """Return a new class all that is not exclusive to another.

        :raises Refused: ENOSPC, there is nothing
        """
        staged: Staged = {}
        for name, control in self.controls.items():
            for domain in control.values:
                value = control.default
                if isinstance(control, CacheControl):
                    value = self._find_free(control, domain, closid)
                staged[name, domain] = value
        self.commit(staged, closid)

    def _find_free(
        self, control: CacheControl, domain: int, closid: int
    ) -> int:
        cache = control.cache
        taken = self.locked.get((cache.name, domain), 0)
        shared = cache.shareable_bits
        for other, mode in self.modes.items():
            if other == closid or mode == groups.LOCKSETUP:
                continue
            used = control.get_used(domain, other)
            taken |= used
            if mode == groups.SHAREABLE:
                shared |= used
        free = controls.first_run((cache.mask & ~taken) | shared)
        if free.bit_count() < cache.min_cbm_bits:
            raise Refused(f'No space on {control.name}:{domain}', errno.ENOSPC)
        return free


def _split(part: str) -> tuple[int, str]:
    domain, equals, value = part.partition('=')
    try:
        if equals:
            return numbers.parse_decimal(domain), value.strip()
    except ValueError:
        pass
    raise Refused("Missing '=' or non-numeric domain")


def _letter(
    *, is_hardware: int, is_shared: int, is_exclusive: int, is_locked: int
) -> str:
    if is_hardware:
        return 'X' if is_shared else 'H'
    if is_shared:
        return 'S'
    if is_exclusive:
        return 'E'
    return 'P' if is_locked else '0'
