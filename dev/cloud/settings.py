# SPDX-License-Identifier: Apache-2.0

"""What a caller may choose about the cloud."""

from collections.abc import Mapping
import dataclasses
from typing import TypeAlias

#: One option's value; a tuple for an option that may be given many times.
Value: TypeAlias = str | tuple[str, ...]
#: Section -> option -> value, as in an oslo.config file.
Options: TypeAlias = Mapping[str, Mapping[str, Value]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The shape of one cloud.

    :ivar hosts: names of the compute hosts, one nova-compute each
    :ivar nova: options for nova.conf, over those that the cloud needs itself
    :ivar per_host: host name -> options for that host alone. All computes
        run in one process and read one nova.conf, so these are written to
        ``<host>.conf`` in the folder that ``[ext_resources]
        host_config_dir`` names.
    :ivar prepare: functions, as ``module:function``, that the control
        process calls before it imports Nova
    """

    hosts: tuple[str, ...] = ('node1', 'node2')
    nova: Options = dataclasses.field(default_factory=dict)
    per_host: Mapping[str, Options] = dataclasses.field(default_factory=dict)
    prepare: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ValueError('A cloud needs at least one compute host.')
        if len(set(self.hosts)) != len(self.hosts):
            raise ValueError(f'Host names repeat in {self.hosts}.')
        unknown = sorted(set(self.per_host) - set(self.hosts))
        if unknown:
            raise ValueError(
                f'per_host names {unknown}, which are not among the hosts '
                f'{list(self.hosts)}.'
            )
