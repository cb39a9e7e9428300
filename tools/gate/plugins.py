# SPDX-License-Identifier: Apache-2.0

"""More inventory providers for the hosts, while the cloud runs."""

from collections.abc import Mapping
import dataclasses

from cloud import settings as cloud_settings
from tools.gate import site as sites


def add(own: cloud_settings.Options, more: str) -> cloud_settings.Options:
    """Return the option with more inventory providers than the own ones.

    :param own: options of a host
    :param more: names, by commas
    """
    former = own['ext_resources']['inventory_providers']
    return {'ext_resources': {'inventory_providers': f'{former},{more}'}}


def configure(
    site: sites.Site, per_host: Mapping[str, cloud_settings.Options]
) -> None:
    """Start the hosts anew with these options."""
    site.cloud.configure(
        dataclasses.replace(site.cloud.settings, per_host=per_host)
    )
    site.cloud.halt(*site.hosts)
    site.cloud.resume(*site.hosts)
