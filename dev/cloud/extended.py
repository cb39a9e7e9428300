# SPDX-License-Identifier: Apache-2.0

"""Options of a Nova whose hosts have extended resources."""

from dev.cloud.machines import base as machines_base
from dev.cloud import settings as cloud_settings

NOVA: cloud_settings.Options = {
    'DEFAULT': {'compute_driver': 'ext_resources.FakeDriver'},
    'ext_resources': {
        'claim_tests': 'granularity,capacity,cache_affinity',
        # Seconds; nobody wants to watch for a minute.
        'refresh_interval': '5',
    },
    # The virt driver shows the same machine.
    'ext_resources_fake': {
        'sockets': str(machines_base.HARDWARE.sockets),
        'cpus': str(machines_base.HARDWARE.cpus),
    },
    'filter_scheduler': {
        'available_filters': (
            'nova.scheduler.filters.all_filters',
            'nova_ext_resources.scheduler.filters.all_filters',
        ),
        'enabled_filters': 'ComputeFilter,ImagePropertiesFilter,'
        'ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,'
        'NUMATopologyFilter,ExtendedResourcesFilter',
        # One list, where available_filters is an option given twice.
        'weight_classes': 'nova.scheduler.weights.all_weighers,'
        'nova_ext_resources.scheduler.weighers.all_weighers',
    },
}
